//! CUDA, on the first device.

crate::gpu::put_to_the_laws!(cubecl::Device::cuda(0));
crate::log_mel::device::put_features_to_the_laws!(cubecl::Device::cuda(0));
