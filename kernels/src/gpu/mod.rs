//! CTC on any CubeCL runtime: three passes, no float atomics, the same bits every run.
//!
//! 1. Each frame of logits to its log-sum-exp and the probabilities of the target's symbols.
//! 2. The lattice, forwards and backwards side by side, one cube a row and direction.
//! 3. The gradient, softmax minus occupancy, for all frames at once.
//!
//! Probabilities are pairs `m 2^e` of f32 and i32, as on the CPU: no infinity, no NaN and no
//! sentinel takes part in the arithmetic, which WGSL would let a compiler fold away. What is
//! infinite or NaN in the results is decided in integers and written as bits.

mod capacity;
mod frames;
mod launch;
mod plan;
mod scaled;
mod sweep;

pub use capacity::{Capacity, Path};
pub use launch::{CtcError, Outputs, ctc};
