//! Log-mel on any CubeCL runtime: the same bits every run, whatever the batch around a row.
//!
//! 1. `frames`: each frame from its samples to the logarithms of its mel bands, in one cube's shared
//!    memory (`signal`, `transform`).
//! 2. `normalize`: each band over the frames of its utterance.
//!
//! Signal, transform and sums run in f64 where the device has it ([`Precision`]): beside a loud tone a
//! silent band is all rounding noise, which in f32 moves its logarithm by 1e-3.

mod error;
mod frames;
mod launch;
mod normalize;
mod signal;
mod transform;

pub use error::LogMelError;
pub use launch::{LogMel, Precision};
