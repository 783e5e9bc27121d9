//! Features on the device: laws, judged by the f64 reference and by toolkits' own output.

pub mod conventions;
#[cfg(feature = "gpu")]
pub mod device;
mod goldens;
#[cfg(feature = "gpu")]
mod signals;
