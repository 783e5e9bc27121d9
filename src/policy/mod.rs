//! What a trained model is on disk, and how it comes back.
//!
//! A checkpoint is a directory that appears whole or not at all: weights (safetensors), the
//! optimiser's state, the tokens, the resolved config, and a manifest with the size and checksum
//! of each, written last. Loading verifies all of it before a single tensor is handed out.
//!
//! Weights come from elsewhere, too, and go there: [`Source`] and [`export`].

mod checkpoint;
mod export;
mod hugging_face;
mod links;
mod parakeet;
mod source;
mod tensors;
mod weights;

#[cfg(test)]
mod goldens;

pub use checkpoint::{Checkpoint, CheckpointError, Manifest, Progress, Texts};
pub use export::{ExportError, Exported, export};
pub use hugging_face::HuggingFaceError;
pub use links::{Link, resolve, retain, save};
pub use source::{Described, Mismatch, Source, SourceError, Started};
pub use tensors::TensorsError;
pub use weights::{load_weights, weights_to_bytes};
