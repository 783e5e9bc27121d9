//! The PTX version that LLVM would emit for a driver; NVRTC picks its own.

/// PTX versions, in the place where `cubecl-cuda` looks for them.
pub mod ptx_version {
    use core::fmt;

    /// A PTX version that LLVM could emit: without LLVM there is none, so there is no value of this type.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum PtxVersion {}

    impl PtxVersion {
        /// The newest version for a CUDA driver, as `cuDriverGetVersion` numbers it: none.
        pub fn for_driver(_driver: i32) -> Option<Self> {
            None
        }
    }

    impl fmt::Display for PtxVersion {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {}
        }
    }
}
