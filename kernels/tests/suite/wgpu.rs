//! WGSL, on whatever adapter wgpu finds; lavapipe serves.

crate::gpu::put_to_the_laws!(cubecl::Device::wgpu(Default::default()));
crate::log_mel::device::put_features_to_the_laws!(cubecl::Device::wgpu(Default::default()));
