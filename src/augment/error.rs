//! Faults of the augmentation: settings, manifests of clips, and the clips.

use std::path::PathBuf;

use crate::audio::AudioError;

/// Why utterances cannot be varied as the config asks.
#[derive(Debug, thiserror::Error)]
pub enum AugmentError {
    /// A setting has no meaning.
    #[error("{key} = {value}: {reason}")]
    Config {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it has to be.
        reason: String,
    },
    /// A manifest of clips cannot be read.
    #[error("{}: cannot read the manifest of clips: {source}", path.display())]
    Read {
        /// The manifest.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A line is no clip.
    #[error("{}:{line}: {reason}; each line is a JSON object with \"audio_filepath\", and optionally \"offset\" and \"duration\"", path.display())]
    Line {
        /// The manifest.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// There is no clip.
    #[error("{}: the manifest holds no clips", path.display())]
    Empty {
        /// The manifest.
        path: PathBuf,
    },
    /// A clip cannot be read.
    #[error("{place}: {source}")]
    Clip {
        /// Manifest and line.
        place: String,
        /// What is wrong.
        source: AudioError,
    },
    /// A room that lets nothing through.
    #[error("{place}: {} holds only zeros, so no speech would be left in this room; remove the line", path.display())]
    SilentResponse {
        /// Manifest and line.
        place: String,
        /// The clip.
        path: PathBuf,
    },
}
