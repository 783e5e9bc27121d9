//! Devices by name: `auto`, `cpu`, `wgpu[:i]`, `vulkan[:i]`, `cuda[:i]`.
//!
//! A name is opened only when it is used. What this build was compiled without, and what the
//! machine does not have, are errors with a way out. A driver that takes the process down cannot
//! be caught here: `doctor` asks first, in a process of its own.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device;
use thiserror::Error;

/// A graphics or compute API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Any graphics API, through WGSL shaders.
    Wgpu,
    /// Vulkan, through SPIR-V.
    Vulkan,
    /// NVIDIA's, through NVRTC.
    Cuda,
}

impl Api {
    /// In the order in which `auto` prefers them.
    pub const ALL: [Self; 3] = [Self::Cuda, Self::Vulkan, Self::Wgpu];

    /// Whether this build can use it at all.
    pub fn is_compiled_in(self) -> bool {
        match self {
            Self::Wgpu => cfg!(feature = "wgpu"),
            Self::Vulkan => cfg!(feature = "vulkan"),
            Self::Cuda => cfg!(feature = "cuda"),
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wgpu => "wgpu",
            Self::Vulkan => "vulkan",
            Self::Cuda => "cuda",
        })
    }
}

/// What `--device` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceName {
    /// The first GPU of an API that passes the self-test, or else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The `index`-th device of an API, as `asr-train doctor` lists them.
    Gpu {
        /// How it is reached.
        api: Api,
        /// Counted from 0.
        index: usize,
    },
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu { api, index } => write!(f, "{api}:{index}"),
        }
    }
}

/// A device that cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DeviceError {
    /// No such name.
    #[error("{0:?} is no device: expected auto, cpu, wgpu[:i], vulkan[:i] or cuda[:i]")]
    Name(String),
    /// The build lacks the API.
    #[error("this build has no {0} support; build it with: cargo build --release --features {0}")]
    NotCompiledIn(Api),
    /// The machine lacks the device.
    #[error("{api}:{index} is not on this machine ({reason}); `asr-train doctor` lists what is")]
    Missing {
        /// The API asked.
        api: Api,
        /// The index asked for.
        index: usize,
        /// What the API answered.
        reason: String,
    },
}

impl FromStr for DeviceName {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let refuse = || DeviceError::Name(text.to_owned());
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, index.parse().map_err(|_| refuse())?),
            None => (text, 0),
        };
        let api = match name {
            "auto" | "cpu" if text.contains(':') => return Err(refuse()),
            "auto" => return Ok(Self::Auto),
            "cpu" => return Ok(Self::Cpu),
            "wgpu" => Api::Wgpu,
            "vulkan" => Api::Vulkan,
            "cuda" => Api::Cuda,
            _ => return Err(refuse()),
        };
        Ok(Self::Gpu { api, index })
    }
}

/// Opens the `index`-th device of `api`.
///
/// # Errors
///
/// [`DeviceError::NotCompiledIn`] or [`DeviceError::Missing`].
pub fn open_gpu(api: Api, index: usize) -> Result<Device, DeviceError> {
    if !api.is_compiled_in() {
        return Err(DeviceError::NotCompiledIn(api));
    }
    gpu::open(api, index)
}

#[cfg(not(feature = "gpu"))]
mod gpu {
    use super::{Api, Device, DeviceError};

    pub(super) fn open(api: Api, _index: usize) -> Result<Device, DeviceError> {
        Err(DeviceError::NotCompiledIn(api))
    }
}

#[cfg(feature = "gpu")]
mod gpu {
    use std::sync::Once;

    use burn::tensor::DeviceType;
    use burn_cubecl::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig, cache::CacheConfig};

    use super::{Api, Device, DeviceError};

    pub(super) fn open(api: Api, index: usize) -> Result<Device, DeviceError> {
        keep_compiled_kernels();
        let missing = |reason: String| DeviceError::Missing { api, index, reason };
        if api == Api::Cuda {
            cuda_headers().map_err(missing)?;
        }
        let devices = Device::enumerate(device_type(api)).into_vec();
        let count = devices.len();
        let found = devices.into_iter().nth(index);
        found.ok_or_else(|| missing(format!("{count} {api} device(s) found")))
    }

    fn device_type(api: Api) -> DeviceType {
        match api {
            #[cfg(feature = "wgpu")]
            Api::Wgpu => DeviceType::Wgpu,
            #[cfg(feature = "vulkan")]
            Api::Vulkan => DeviceType::Vulkan,
            #[cfg(feature = "cuda")]
            Api::Cuda => DeviceType::Cuda,
            #[allow(unreachable_patterns)]
            other => unreachable!("{other} was checked to be compiled in"),
        }
    }

    /// Compiled kernels outlive the process, in the user's cache folder: on CUDA they are most
    /// of the time to the first step. What the user configured otherwise stays.
    fn keep_compiled_kernels() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
            config.compilation.cache = true;
            config.environment.path = CacheConfig::Global;
            if !CubeClRuntimeConfig::try_set(config) {
                tracing::warn!(
                    "the GPU runtime was configured before us: compiled kernels are not kept"
                );
            }
        });
    }

    /// NVRTC needs CUDA's headers, and cubecl panics in the first kernel without them.
    fn cuda_headers() -> Result<(), String> {
        let configured = std::env::var("CUDA_PATH").ok();
        let places =
            configured.as_deref().into_iter().chain(["/usr/local/cuda", "/opt/cuda", "/usr"]);
        let mut headers =
            places.map(|place| std::path::Path::new(place).join("include/cuda_runtime.h"));
        if headers.any(|header| header.is_file()) {
            return Ok(());
        }
        Err("CUDA's headers were not found; install the CUDA toolkit or set CUDA_PATH to it"
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_they_are_shown() {
        for name in ["auto", "cpu", "wgpu:0", "vulkan:3", "cuda:1"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse::<DeviceName>().unwrap().to_string(), "cuda:0");
    }

    #[test]
    fn other_names_are_refused_with_the_list() {
        for name in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "auto:1", "CUDA"] {
            let message = name.parse::<DeviceName>().unwrap_err().to_string();
            assert!(message.contains("expected auto, cpu"), "{message}");
        }
    }

    #[test]
    fn a_build_without_an_api_names_the_feature() {
        for api in Api::ALL {
            if !api.is_compiled_in() {
                let message = open_gpu(api, 0).unwrap_err().to_string();
                assert!(message.contains(&format!("--features {api}")), "{message}");
            }
        }
    }
}
