//! The child's side: open one device, ask it who it is, run the CTC self-test.

use burn::tensor::Device;

use super::{Answer, Findings};
use crate::ctc::self_test;
use crate::device::{DeviceError, DeviceName, open_gpu};

/// Answers for `name`. A crash of the driver is the parent's to notice.
pub fn probe(name: DeviceName) -> Answer {
    match name {
        DeviceName::Auto | DeviceName::Cpu => Answer::Found(cpu()),
        DeviceName::Gpu { api, index } => match open_gpu(api, index) {
            Ok(device) => Answer::Found(gpu::findings(name, device)),
            Err(DeviceError::Missing { reason, .. }) => Answer::Missing(reason),
            Err(error) => Answer::Missing(error.to_string()),
        },
    }
}

fn cpu() -> Findings {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Findings {
        name: processor().unwrap_or_else(|| "unnamed processor".to_owned()),
        driver: format!("{threads} thread(s)"),
        memory_bytes: total_memory(),
        shared_memory_bytes: None,
        max_shared_labels: None,
        is_software: true,
        ctc_error: self_test::run(&Device::flex()),
    }
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn total_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(not(feature = "gpu"))]
mod gpu {
    use super::{Device, DeviceName, Findings};

    pub(super) fn findings(name: DeviceName, _device: Device) -> Findings {
        unreachable!("{name} cannot be opened by a build without GPU support")
    }
}

#[cfg(feature = "gpu")]
mod gpu {
    use asr_kernels::gpu::Capacity;
    use burn::backend::DispatchDevice;

    use super::{Device, DeviceName, Findings, self_test};
    use crate::device::Api;

    pub(super) fn findings(name: DeviceName, device: Device) -> Findings {
        let DispatchDevice::Cube(cube) = device.as_dispatch() else {
            unreachable!("{name} is a CubeCL device")
        };
        let client = cube.client();
        let properties = client.properties();
        let capacity = Capacity::of(&client);
        let adapter = &properties.identity.name;
        Findings {
            name: adapter.clone(),
            driver: driver(name).unwrap_or_else(|| client.name().to_owned()),
            memory_bytes: properties.memory.max_memory(),
            shared_memory_bytes: Some(properties.hardware.max_shared_memory_size as u64),
            max_shared_labels: Some(capacity.max_shared_labels),
            is_software: ["llvmpipe", "SwiftShader"].iter().any(|cpu| adapter.contains(cpu)),
            ctc_error: self_test::run(&device),
        }
    }

    /// The kernel module's word; wgpu hides the driver behind the adapter.
    fn driver(name: DeviceName) -> Option<String> {
        let DeviceName::Gpu { api: Api::Cuda, .. } = name else { return None };
        let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
        let words = text.lines().next()?.split_whitespace();
        let version =
            words.into_iter().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        Some(format!("NVIDIA {version}"))
    }
}
