//! CTC on the device at hand: the loss, what targets it takes, and whether it is right there.
//!
//! The operator is [`asr_ctc`], the arithmetic [`asr_kernels`].

pub mod self_test;
mod targets;

pub use asr_ctc::{admits, ctc_loss};
pub use targets::{BucketTargets, CtcConfig, LongTargets, TargetsError, look_at_targets};
