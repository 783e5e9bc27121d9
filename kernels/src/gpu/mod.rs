//! CTC on any CubeCL runtime: no float atomics, the same bits every run.
//!
//! 1. `frames`: each frame of logits to its log-sum-exp and the emissions of the target's symbols.
//! 2. `sweep`: the lattice, forwards and backwards side by side, to the middle.
//! 3. `total`: what both make where they meet, which is the loss.
//! 4. `sweep`: each direction through the other's half, to occupancies.
//! 5. `gradient`: softmax minus occupancy, for all frames at once.
//!
//! Probabilities are pairs `m 2^e` of f32 and i32 (`scaled`): no infinity, no NaN and no
//! logarithm takes part in the arithmetic of the lattice. What is infinite or NaN in the results
//! is decided in integers and written as bits, which WGSL would let a compiler fold away.

mod arrivals;
mod capacity;
mod error;
mod exchange;
mod frames;
mod gradient;
mod held;
mod launch;
mod layout;
mod logits;
mod plan;
mod scaled;
mod step;
mod sweep;
mod total;

pub use capacity::{Capacity, LongTargets, Path};
pub use error::CtcError;
pub use exchange::Lanes;
pub(crate) use frames::{is_finite, ln};
pub use launch::{Gradient, Outputs, check, ctc};
pub use logits::LogitsType;
