//! Where the buffers between the passes keep what, and the sizes that every kernel needs.
//!
//! | buffer | shape |
//! |---|---|
//! | `norms` | `[rows, T, NORM_WORDS]` |
//! | `symbols` | `[MARGIN_FRAMES + rows T + MARGIN_FRAMES, S + 1]` emissions, the blank first |
//! | `lattice` | `[MARGIN_FRAMES + rows T + MARGIN_FRAMES, 2, S + 1]` words: blanks, then labels |
//! | `biases` | `[rows, 2, blocks, lanes]` |
//! | `states` | `[rows, 2, S + 1, STATE_WORDS]` |
//! | `columns` | `[strips, rows, 2, T]` states, words of none 0: each strip's last label, for the strip after |
//! | `summary` | `[rows, SUMMARY_WORDS]` |
//!
//! Rows are those of one launch; a 2 is the directions', or that of alternating strips.

use super::capacity::Class;
use crate::Problem;
use cubecl::prelude::*;

/// Frames before the first and after the last, so that reading ahead needs no bounds. Nothing
/// that is read there is used.
pub(super) const MARGIN_FRAMES: usize = 32;
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

/// Words of each buffer between the passes, for so many rows.
#[derive(Clone, Copy)]
pub(super) struct ScratchWords {
    pub(super) symbols: usize,
    pub(super) norms: usize,
    pub(super) lattice: usize,
    pub(super) biases: usize,
    pub(super) states: usize,
    pub(super) columns: usize,
    pub(super) summary: usize,
}

impl ScratchWords {
    pub(super) fn of(problem: &Problem, num_rows: usize, wants_grad: bool, class: Class) -> Self {
        let frames = num_rows * problem.num_frames();
        let with_margins = frames + 2 * MARGIN_FRAMES;
        let pairs = problem.max_label_len() + 1;
        let lanes = problem.max_label_len() / class.held + 1;
        let strips = pairs.div_ceil(class.pairs());
        // A buffer has an element, used or not.
        let if_wanted = |words: usize| if wants_grad { words } else { 2 };
        Self {
            symbols: with_margins * pairs * 2,
            norms: frames * NORM_WORDS,
            lattice: if_wanted(with_margins * pairs * 2),
            biases: if_wanted(num_rows * 2 * max_blocks(problem, class) * lanes),
            states: num_rows * 2 * pairs * STATE_WORDS,
            columns: if class.in_strips() { strips * 2 * frames * 2 } else { 2 },
            summary: num_rows * SUMMARY_WORDS,
        }
    }

    /// The largest of them.
    pub(super) fn greatest(&self) -> usize {
        [self.symbols, self.norms, self.lattice, self.biases, self.states, self.columns]
            .into_iter()
            .fold(self.summary, usize::max)
    }
}

/// Blocks of steps from an end of the longest utterance to its middle.
pub(super) fn max_blocks(problem: &Problem, class: Class) -> usize {
    problem.num_frames().div_ceil(2).div_ceil(class.block)
}
