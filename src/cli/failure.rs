//! Errors and the exit codes that scripts branch on.

use std::io::ErrorKind;

use crate::augment::AugmentError;
use crate::config::{ConfigError, InvalidConfig};
use crate::ctc::TargetsError;
use crate::data::DataError;
use crate::device::DeviceError;
use crate::eval::EvalError;
use crate::eval::report::ReportError;
use crate::policy::{CheckpointError, ExportError, SourceError};
use crate::prepare::PrepareError;
use crate::schedule::ScheduleError;
use crate::tokens::TokensError;
use crate::train::TrainError;

/// Failed while running.
pub(super) const RUNNING: u8 = 1;
/// The command line or the config is wrong.
pub(super) const USAGE: u8 = 2;
/// The data is wrong.
pub(super) const DATA: u8 = 3;
/// A stated bar was missed.
pub(super) const MISSED: u8 = 4;
/// The loss was lost.
pub(super) const DIVERGED: u8 = 5;

/// How a command ends other than well.
#[derive(Debug)]
pub(super) struct Failure {
    /// The exit code.
    pub code: u8,
    /// What to say; nothing where all is said.
    pub error: Option<anyhow::Error>,
}

impl Failure {
    pub fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Self { code, error: Some(error.into()) }
    }

    /// The same with a way out at the end of the message.
    pub fn with(mut self, way_out: &str) -> Self {
        self.error = self.error.map(|error| anyhow::anyhow!("{}; {way_out}", super::chain(&error)));
        self
    }

    /// Ends with `code` and no further word.
    pub fn silent(code: u8) -> Self {
        Self { code, error: None }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(RUNNING, error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(USAGE, error)
    }
}

impl From<InvalidConfig> for Failure {
    fn from(error: InvalidConfig) -> Self {
        Self::new(USAGE, error)
    }
}

impl From<ScheduleError> for Failure {
    fn from(error: ScheduleError) -> Self {
        Self::new(USAGE, error)
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::new(USAGE, error)
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        let code = match error {
            DataError::Loader(_) => RUNNING,
            // Settings, whatever it took to find out that they do not fit.
            DataError::LongerThanBatch { .. }
            | DataError::Config { .. }
            | DataError::Features(_)
            | DataError::Augment(AugmentError::Config { .. }) => USAGE,
            _ => DATA,
        };
        Self::new(code, error)
    }
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Data(error) => error.into(),
            PrepareError::Schedule(error) => error.into(),
            PrepareError::Source(error) => error.into(),
            other => Self::new(DATA, other),
        }
    }
}

impl From<TokensError> for Failure {
    fn from(error: TokensError) -> Self {
        Self::new(DATA, error)
    }
}

impl From<TargetsError> for Failure {
    fn from(error: TargetsError) -> Self {
        Self::new(DATA, error)
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        let code = if matches!(error, CheckpointError::Missing(_)) { USAGE } else { RUNNING };
        Self::new(code, error)
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Checkpoint(error) => error.into(),
            error => Self::new(USAGE, error),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Checkpoint(error) => error.into(),
            ExportError::Write { ref source, .. } if source.kind() == ErrorKind::StorageFull => {
                Self::new(RUNNING, error)
            }
            error @ (ExportError::Unfit { .. }
            | ExportError::Vocabulary { .. }
            | ExportError::Write { .. }) => Self::new(USAGE, error),
            error => Self::new(RUNNING, error),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Config(error) => error.into(),
            TrainError::Invalid(error) => error.into(),
            TrainError::Schedule(error) => error.into(),
            TrainError::Prepare(error) => error.into(),
            TrainError::Targets(error) => error.into(),
            TrainError::Data(error) => error.into(),
            TrainError::Checkpoint(error) => error.into(),
            TrainError::Source(error) => error.into(),
            // A full disk is no mistake of the command line.
            TrainError::Output { ref source, .. } if source.kind() == ErrorKind::StorageFull => {
                Self::new(RUNNING, error)
            }
            error @ (TrainError::Exists(_)
            | TrainError::Extract(_)
            | TrainError::OtherConfig { .. }
            | TrainError::Output { .. }) => Self::new(USAGE, error),
            error @ TrainError::Diverged { .. } => Self::new(DIVERGED, error),
            error => Self::new(RUNNING, error),
        }
    }
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Self {
        match error {
            EvalError::Checkpoint(error) => error.into(),
            EvalError::Data(error) => error.into(),
            error @ (EvalError::NoManifest | EvalError::Report(ReportError::Directory { .. })) => {
                Self::new(USAGE, error)
            }
            error => Self::new(RUNNING, error),
        }
    }
}
