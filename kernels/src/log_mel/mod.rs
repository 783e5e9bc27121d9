//! Log-mel features on a device: framing, window, real Fourier transform, mel bands, logarithm and
//! normalisation of a batch of waveforms, of any convention that a table can tell
//! ([`Settings`]). What reaches outside an utterance (Whisper's greatest value, SpeechBrain's range,
//! dither) and transforms of no power of two are refused or left to the host.
//!
//! [`Waveforms`] holds what is known about a batch before any sample is seen, [`mod@reference`] is
//! the slow twin in f64 that judges `gpu`.

#[cfg(feature = "gpu")]
pub mod gpu;
pub mod reference;
mod settings;
mod waveforms;

pub use settings::{Band, Edges, Normalize, PreemphasisOver, Settings, SettingsError};
pub use waveforms::{Waveforms, WaveformsError};
