//! The device features that LLVM would have to take back; NVRTC keeps all of them.

/// Device features, in the place where `cubecl-cuda` looks for them.
pub mod lowered_features {
    use cubecl_core::ir::DeviceProperties;

    /// The family of devices that features are taken back for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum GpuTarget {
        /// NVIDIA.
        Nvptx,
    }

    /// Leaves the properties as they are. Only a build without `cpp` calls this, and there every kernel is refused
    /// whatever the device advertises, by an error that says why; an empty device would hide that reason.
    pub fn restrict_features(_properties: &mut DeviceProperties, _target: GpuTarget) {}
}
