//! One suite of laws for every fast path, judged by the f64 reference. Each runtime that
//! the enabled features name is an engine; one that finds no device fails, never skips.

#![allow(clippy::unwrap_used)]

mod cases;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod goldens;
#[cfg(feature = "gpu")]
mod gpu;
mod laws;
mod log_mel;
#[cfg(feature = "wgpu")]
mod wgpu;
