//! Train and measure CTC speech recognisers, on a CPU, any Vulkan GPU or CUDA.
//!
//! ```text
//! manifest -> Utterance -> Waveform -> Features -> Batch -> logits -> loss, gradient -> weights   (train)
//!                                                  Batch -> logits -> hypotheses -> edits -> report (eval)
//! ```
//!
//! Modules import one way, from the commands down to audio and text; `tests/` holds them there.

pub mod audio;
pub mod augment;
pub mod cli;
pub mod config;
pub mod cores;
pub mod corpus;
pub mod ctc;
pub mod data;
pub mod decode;
pub mod device;
pub mod doctor;
pub mod durable;
pub mod eval;
pub mod extract;
pub mod features;
pub(crate) mod host;
pub mod interrupt;
pub mod model;
pub mod optim;
pub mod policy;
pub mod prepare;
pub mod progress;
pub mod recognise;
pub mod schedule;
pub mod score;
pub mod text;
pub mod tokens;
pub mod train;
pub(crate) mod wording;
