//! Why a batch is refused: everything that can be known before anything is launched.

use super::logits::LogitsType;

/// Why a batch was not launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CtcError {
    /// The logits are not the problem's.
    #[error(
        "logits of {want} bytes (batch x frames x classes) were promised but the buffer holds {got}"
    )]
    LogitsSize {
        /// Bytes of the problem's logits.
        want: usize,
        /// Bytes of the buffer.
        got: u64,
    },
    /// A tensor beyond the kernels' reach.
    #[error(
        "{what} needs {words} 32-bit words and this device takes {limit} at once: \
         use shorter utterances or a smaller batch"
    )]
    TooLarge {
        /// Which tensor.
        what: &'static str,
        /// Its words.
        words: usize,
        /// The most that one may have.
        limit: usize,
    },
    /// A frame whose classes or labels outgrow a loop.
    #[error(
        "{classes} classes and {labels} labels need more than the {limit} loop iterations \
         that one launch may make on this device"
    )]
    FrameTooWide {
        /// Classes of the logits.
        classes: usize,
        /// The longest target.
        labels: usize,
        /// Iterations of one unit.
        limit: usize,
    },
    /// A type of logits that the device's kernels cannot compute with.
    #[error("this device cannot compute with {dtype:?} logits: cast them to f32")]
    UnsupportedType {
        /// The type.
        dtype: LogitsType,
    },
    /// A target that no cube holds, where the policy is to refuse it.
    #[error(
        "row {row}: its target of {labels} labels is longer than the {capacity} that this device \
         sweeps at once: allow `long_targets = \"global\"` or leave the utterance out"
    )]
    LongTarget {
        /// The row of the longest target.
        row: usize,
        /// Its labels.
        labels: usize,
        /// The longest target that fits.
        capacity: usize,
    },
    /// More rows or frames than the device can be asked for at once.
    #[error(
        "a batch of {rows} rows x {frames} frames is beyond the {limit:?} cubes this device launches at once"
    )]
    TooManyCubes {
        /// Rows of the batch.
        rows: usize,
        /// Frames of the logits.
        frames: usize,
        /// Cubes along x and y.
        limit: (u32, u32),
    },
}
