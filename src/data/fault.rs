//! Kinds of faults, so that a thousand recordings with one fault are one line and not a thousand.

use crate::audio::AudioError;
use crate::wording::plural;

/// What kind of fault makes an utterance unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The recording is not there, or may not be opened.
    NotFound,
    /// The recording cannot be read or decoded.
    Unreadable,
    /// It is no audio, or none that can be decoded here.
    NotAudio,
    /// It is cut short.
    Truncated,
    /// It holds no samples.
    NoSamples,
    /// It holds NaN or infinite samples.
    NotFinite,
    /// It has another sample rate.
    SampleRate,
    /// It has another number of channels.
    Channels,
    /// The segment does not lie within it.
    Segment,
    /// The manifest's duration is not that of the audio.
    Duration,
    /// The transcript is empty.
    EmptyText,
}

impl Fault {
    /// The kind of an error.
    pub fn of(error: &AudioError) -> Fault {
        match error {
            AudioError::Open { .. } => Fault::NotFound,
            AudioError::NotAudio { .. }
            | AudioError::Unsupported { .. }
            | AudioError::Shortened { .. } => Fault::NotAudio,
            AudioError::Truncated { .. } => Fault::Truncated,
            AudioError::Empty { .. } | AudioError::NoSamples { .. } => Fault::NoSamples,
            AudioError::NotFinite { .. } => Fault::NotFinite,
            AudioError::SampleRate { .. } => Fault::SampleRate,
            AudioError::Channels { .. } | AudioError::NoSuchChannel { .. } => Fault::Channels,
            AudioError::Segment { .. } | AudioError::SegmentValue { .. } => Fault::Segment,
            _ => Fault::Unreadable,
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Fault::NotFound => "not_found",
            Fault::Unreadable => "unreadable",
            Fault::NotAudio => "not_audio",
            Fault::Truncated => "truncated",
            Fault::NoSamples => "no_samples",
            Fault::NotFinite => "not_finite",
            Fault::SampleRate => "sample_rate",
            Fault::Channels => "channels",
            Fault::Segment => "segment",
            Fault::Duration => "duration",
            Fault::EmptyText => "empty_text",
        }
    }

    /// A sentence that starts after its count.
    pub fn sentence(self, count: usize) -> &'static str {
        let (one, many) = match self {
            Fault::NotFound => ("recording cannot be opened", "recordings cannot be opened"),
            Fault::Unreadable => ("recording cannot be decoded", "recordings cannot be decoded"),
            Fault::NotAudio => {
                ("file is no audio that can be read", "files are no audio that can be read")
            }
            Fault::Truncated => ("recording is truncated", "recordings are truncated"),
            Fault::NoSamples => ("recording holds no samples", "recordings hold no samples"),
            Fault::NotFinite => (
                "recording holds NaN or infinite samples",
                "recordings hold NaN or infinite samples",
            ),
            Fault::SampleRate => {
                ("recording has another sample rate", "recordings have another sample rate")
            }
            Fault::Channels => (
                "recording has another number of channels",
                "recordings have another number of channels",
            ),
            Fault::Segment => (
                "segment does not lie within its recording",
                "segments do not lie within their recordings",
            ),
            Fault::Duration => (
                "duration in the manifest is not that of the audio",
                "durations in the manifest are not those of the audio",
            ),
            Fault::EmptyText => ("transcript is empty", "transcripts are empty"),
        };
        plural(count, one, many)
    }
}
