//! Why features are not computed: everything that can be known before anything is launched.

use super::launch::Precision;
use crate::log_mel::SettingsError;

/// Why a plan or a batch was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LogMelError {
    /// Settings without a meaning.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A precision that the device's kernels cannot compute with.
    #[error("this device cannot compute in {precision:?} precision")]
    UnsupportedPrecision {
        /// The precision.
        precision: Precision,
    },
    /// A transform that no cube holds.
    #[error(
        "a transform of {fft_len} points needs {units} units and {bytes} bytes of shared memory; \
         a cube of this device has {max_units} and {max_bytes}"
    )]
    TransformTooLong {
        /// Its length.
        fft_len: usize,
        /// Units that it needs.
        units: usize,
        /// Shared memory that it needs.
        bytes: usize,
        /// Units of a cube.
        max_units: usize,
        /// Shared memory of a cube.
        max_bytes: usize,
    },
    /// Samples that are not the batch's.
    #[error("a batch of {want} bytes of samples was promised but the buffer holds {got}")]
    SamplesSize {
        /// Bytes of the batch's samples.
        want: usize,
        /// Bytes of the buffer.
        got: u64,
    },
    /// A tensor beyond the kernels' reach.
    #[error(
        "{what} needs {bytes} bytes and this device takes {limit} at once: use smaller batches"
    )]
    TooLarge {
        /// Which tensor.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The most that one may have.
        limit: usize,
    },
    /// Loops that outgrow what one launch may make.
    #[error(
        "{what} would take {iterations} loop iterations, more than the {limit} that one launch \
         may make on this device"
    )]
    TooManyIterations {
        /// What is looped over.
        what: &'static str,
        /// Iterations of one unit.
        iterations: usize,
        /// The most that are safe.
        limit: usize,
    },
}
