//! Log-mel features, one implementation for training and evaluation, in NeMo's convention: the one of
//! `AudioToMelSpectrogramPreprocessor` and of Hugging Face's `ParakeetFeatureExtractor`, against whose
//! output the golden vectors of the tests were made.
//!
//! Refused: a configuration without a meaning, see [`LogMelConfig::validate`].

mod config;
mod logmel;
mod mel;
mod normalize;

pub use config::{FeatureError, LogMelConfig, Normalize};
pub use logmel::{LogMel, LogMelScratch};

/// Features of one utterance: `[T, F]`, frame by frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// `num_frames * num_mels` values, row-major.
    pub data: Vec<f32>,
    /// Frames (T).
    pub num_frames: usize,
    /// Mel bands (F).
    pub num_mels: usize,
}
