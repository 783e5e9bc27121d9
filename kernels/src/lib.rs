//! The CTC loss (Graves et al., 2006) and its gradient with respect to logits, for CPUs
//! and for every GPU that CubeCL reaches. Knows nothing of Burn or of autodiff.
//!
//! [`Problem`] holds what is known about a batch before any float is seen, [`mod@reference`]
//! is the slow twin that judges the fast paths, [`cpu`] and `gpu` are those paths. [`log_mel`] is
//! what comes before a model: features on the device.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod lattice;
pub mod log_mel;
mod problem;
pub mod reference;

pub use lattice::required_frames;
pub use problem::{Problem, ProblemError};
