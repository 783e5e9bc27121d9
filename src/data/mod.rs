//! From manifests to batches: what the utterances are ([`manifest`]), whether their audio keeps its
//! promises ([`mod@survey`]), how they are spelt ([`dataset`]), in which order they come ([`sampler`]) and
//! how they are made ready while the device computes ([`loader`]).
//!
//! Whatever is left out is counted with its reason; what is broken stops the run before it starts.

pub mod balance;
mod batch;
mod buckets;
mod config;
pub mod dataset;
mod error;
mod fault;
pub mod fix;
pub mod lengths;
pub mod loader;
pub mod manifest;
mod measure;
mod permutation;
mod random;
mod read_ahead;
pub mod report;
pub mod sampler;
mod shard_order;
pub mod survey;

pub use batch::{Batch, BatchInput, BatchWaveforms};
pub use config::{DataConfig, DurationMismatch, EmptyText, FeaturesOn};
pub use dataset::Dataset;
pub use error::{DataError, Problem, Problems};
pub use fault::Fault;
pub use lengths::{Lengths, LengthsError};
pub use loader::{EvalLoader, TrainLoader};
pub use manifest::{ManifestError, Utterance};
pub use measure::Measured;
pub use sampler::{Cursor, Padding, PlannedBatch, Sampler};
pub use survey::{
    Depth, DropReason, Dropped, Findings, Survey, Surveyed, inspect, survey, survey_again,
};
