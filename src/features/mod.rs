//! Log-mel features, one implementation for training and evaluation, in the conventions of eight
//! toolkits (see [`Preset`]): a model is only good for the features it was trained on, and the
//! toolkits' differ by up to 20 in the logarithm. The settings travel with every checkpoint.
//!
//! Each step of the way from samples to features is a file of its own. Refused: a configuration
//! without a meaning, see [`LogMelConfig::validate`].

mod compression;
mod config;
#[cfg(test)]
mod definition;
mod dither;
mod framing;
#[cfg(test)]
mod goldens;
mod logmel;
mod mel;
mod normalize;
mod preset;
mod signal;
#[cfg(test)]
mod signals;
mod spectrum;
mod tables;
mod window;

pub use config::{Edges, FeatureError, Log, LogMelConfig, Normalize, PreemphasisOver, Spectrum};
pub use framing::Framing;
pub use logmel::{LogMel, LogMelScratch};
pub use mel::{MelNorm, MelScale, MelTriangles};
pub use preset::Preset;
pub use window::Window;

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
