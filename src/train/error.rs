//! Why a run cannot start or go on.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::config::{ConfigError, InvalidConfig};
use crate::ctc::TargetsError;
use crate::data::{DataError, LengthsError};
use crate::extract::ExtractError;
use crate::policy::{CheckpointError, SourceError};
use crate::prepare::PrepareError;
use crate::progress::MetricsError;
use crate::schedule::ScheduleError;

/// Why a run cannot start or go on.
#[derive(Debug, Error)]
pub enum TrainError {
    /// The config cannot be read or written.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The config cannot train.
    #[error(transparent)]
    Invalid(#[from] InvalidConfig),
    /// The schedule does not fit the run.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// There is nothing to train on.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The loss cannot take some targets.
    #[error(transparent)]
    Targets(#[from] TargetsError),
    /// The device does not compute the features.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// A recording changed or vanished during the run.
    #[error(transparent)]
    Data(#[from] DataError),
    /// What the run keeps of its recordings is damaged.
    #[error(transparent)]
    Lengths(#[from] LengthsError),
    /// A checkpoint cannot be written or trusted.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The weights to start from do not fit.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The metrics cannot be written.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The run directory cannot be used.
    #[error("cannot write the run directory {}: {source}; choose another with --out DIR", path.display())]
    Output {
        /// The directory or a file in it.
        path: PathBuf,
        /// The file system's answer.
        source: io::Error,
    },
    /// The system starts no more threads.
    #[error("cannot start the threads that compute a step: {0}; allow more threads (ulimit -u)")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// A new run would overwrite an old one.
    #[error("{} already holds a run, which this would overwrite; resume it (--resume auto), or choose another directory with --out DIR", .0.display())]
    Exists(PathBuf),
    /// The run to resume was another one.
    #[error("cannot resume {} with another config: {keys}; start a new run with --out DIR, or restore the values", path.display())]
    OtherConfig {
        /// The run directory.
        path: PathBuf,
        /// The keys that differ, with both values.
        keys: String,
    },
    /// The optimiser's state is not one of this model.
    #[error("the optimiser's state in {} cannot be read: {reason}; resume from another checkpoint, or start a new run with --out DIR", path.display())]
    Optimizer {
        /// The run directory.
        path: PathBuf,
        /// What Burn answered.
        reason: String,
    },
    /// The loss is lost.
    #[error(
        "diverged at step {step}: loss or gradient was not finite in {in_a_row} steps in a row; lower optim.learning_rate or look at these utterances: {ids}"
    )]
    Diverged {
        /// The step.
        step: usize,
        /// Bad steps in a row.
        in_a_row: usize,
        /// Utterances with a non-finite loss, or all of the last batch.
        ids: String,
    },
}
