//! Where the buffers between the passes keep what, and the sizes that every kernel needs.
//!
//! | buffer | shape |
//! |---|---|
//! | `norms` | `[rows, T, NORM_WORDS]` |
//! | `symbols` | `[rows, T, S + 1]` emissions, the blank first |
//! | `lattice` | `[rows, T, 2, S + 1]` words: blanks, then labels |
//! | `biases` | `[rows, 2, blocks, lanes]` |
//! | `states` | `[rows, 2, S + 1, STATE_WORDS]` |
//! | `columns` | `[2, rows, 2, T]` states |
//! | `summary` | `[rows, SUMMARY_WORDS]` |
//!
//! Rows are those of one launch; a 2 is the directions', or that of alternating strips.

use cubecl::prelude::*;

/// Words of a frame's norm: greatest logit, `1 / sum`, `ln sum` of `sum(e^(x - max))`, and
/// whether it has none of these.
pub(super) const NORM_WORDS: usize = 4;
/// Words of a row's summary: verdict, 1 over the total's mantissa, its exponent.
pub(super) const SUMMARY_WORDS: usize = 4;
/// Words of a pair of states: blank and label, mantissa and exponent each.
pub(super) const STATE_WORDS: usize = 4;

/// Verdict: the row has a loss and a gradient.
pub(super) const SOUND: u32 = 0;
/// Verdict: no path has a probability, and the gradient is 0.
pub(super) const IMPOSSIBLE: u32 = 1;
/// Verdict: these bits, a NaN, fill the loss and the gradient.
pub(super) const NAN_BITS: u32 = 0x7fc0_0000;

/// Sizes that every kernel needs.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
pub(super) struct Sizes {
    /// Frames of the logits.
    pub(super) num_frames: u32,
    /// Classes of the logits.
    pub(super) num_classes: u32,
    /// The longest target.
    pub(super) max_labels: u32,
    /// The blank.
    pub(super) blank: u32,
    /// Rows before the first of this launch.
    pub(super) first_row: u32,
    /// Rows of this launch.
    pub(super) num_rows: u32,
    /// Log2-shares below this count as 0, so that `num_frames` of them fit an i32.
    pub(super) floor: i32,
}
