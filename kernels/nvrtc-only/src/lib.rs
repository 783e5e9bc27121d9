//! CUDA without an LLVM download: what `cubecl-cuda` 0.11.3 names of `cubecl-llvm`, and no compiler behind it.
//!
//! `cubecl-cuda` has two ways from a kernel to PTX, NVRTC (CUDA's own compiler, a library loaded at run time) and LLVM,
//! and always builds both. The build script of the real `cubecl-llvm` fetches LLVM from a release page: a large download
//! for every user, and a failed build without open internet. This project compiles by NVRTC only (feature `cpp` of
//! `cubecl-cuda`, turned on in the root manifest), so `[patch.crates-io]` there puts this crate in the other's place.
//! Every kernel sent here fails with an error that names the missing feature.
//!
//! Drop this directory, the patch and `cpp` when upstream makes LLVM optional; with every update of CubeCL, look whether
//! the names below are still the ones it uses. `cubecl-cpu` and `cubecl-hip` need the real crate.

#[cfg(feature = "nvptx")]
mod compiler;
#[cfg(feature = "nvptx")]
pub mod nvptx;
#[cfg(feature = "nvptx")]
pub mod shared;

#[cfg(feature = "nvptx")]
pub use compiler::{LlvmTarget, NvptxModule, PlironArtifact, PlironCompiler, PlironOptions};
