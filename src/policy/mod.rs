//! What a trained model is on disk, and how it comes back.
//!
//! A checkpoint is a directory that appears whole or not at all: weights (safetensors), the
//! optimiser's state, the tokens, the resolved config, and a manifest with the size and checksum
//! of each, written last. Loading verifies all of it before a single tensor is handed out.

mod checkpoint;
mod links;
mod weights;

pub use checkpoint::{Checkpoint, CheckpointError, Manifest, Progress};
pub use links::{Link, resolve, retain, save};
pub use weights::{load_weights, weights_to_bytes};
