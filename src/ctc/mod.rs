//! CTC on the device at hand: the loss, what targets it takes, and whether it is right there.
//!
//! The operator is [`asr_ctc`], the arithmetic [`asr_kernels`].

mod consistency;
pub mod self_test;
mod targets;

pub use asr_ctc::{admits, ctc_loss};
pub use consistency::{VIEWS, consistency};
pub use targets::{
    BucketTargets, CtcConfig, CtcConfigError, LongTargets, TargetsError, look_at_targets,
};
