//! Faults of the augmentation: settings, manifests of clips, and the clips.

use std::path::PathBuf;

use crate::audio::AudioError;
use crate::corpus::Faults;
use crate::wording::counted;

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
    /// It is something else.
    #[error("{}: cannot read the manifest of clips: {reason}", path.display())]
    Kind {
        /// The manifest.
        path: PathBuf,
        /// What it is, and the way out.
        reason: String,
    },
    /// Lines are no clips.
    #[error("{}: {}; each line is a JSON object with \"audio_filepath\", and optionally \"offset\" and \"duration\":{faults}", path.display(), counted(faults.total(), "fault"))]
    Faults {
        /// The manifest.
        path: PathBuf,
        /// What is wrong.
        faults: Faults,
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
    #[error("{place}: {} holds only zeros, so no speech would be left in this room; remove the line{}", path.display(), if *more > 0 { format!(", and {more} more like it") } else { String::new() })]
    SilentResponse {
        /// Manifest and line.
        place: String,
        /// The clip.
        path: PathBuf,
        /// How many there are besides.
        more: usize,
    },
}
