//! The seeds of one forward pass.
//!
//! Passed in rather than drawn from a global generator: what is dropped is a function of the
//! pass's seed and the order of uses, so a resumed run drops what an uninterrupted one would have.

use std::cell::Cell;

use super::activation::Drop;

/// Where a forward pass takes its randomness from.
#[derive(Debug)]
pub struct Noise {
    state: Option<Cell<u64>>,
}

impl Noise {
    /// Nothing is dropped.
    pub fn none() -> Self {
        Self { state: None }
    }

    /// For one training step.
    pub fn seeded(seed: u64) -> Self {
        Self { state: Some(Cell::new(seed)) }
    }

    /// What the next use drops at `rate`.
    pub(super) fn draw(&self, rate: f64) -> Drop {
        match &self.state {
            Some(state) if rate > 0.0 => {
                // SplitMix64 (Steele et al., 2014): consecutive states are far apart.
                let next = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
                state.set(next);
                let mixed = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                Drop { rate, seed: mixed ^ (mixed >> 31) }
            }
            _ => Drop::NONE,
        }
    }
}
