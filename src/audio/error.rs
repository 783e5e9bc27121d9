//! Everything that can be wrong with a recording. Each message names the file and the way out.

use std::io;
use std::path::PathBuf;

/// Why a recording could not be used.
#[derive(Debug, thiserror::Error)]
pub enum AudioError {
    /// The file is missing or may not be read.
    #[error("{}: cannot open the recording: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Reading failed half way.
    #[error("{}: cannot read the recording: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file holds no bytes at all.
    #[error("{}: the file is empty (0 bytes)", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The content is no audio container.
    #[error("{}: not audio: {found}", path.display())]
    NotAudio {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        found: String,
    },
    /// The content is audio in a form without a decoder here.
    #[error("{}: {format} cannot be read; convert it to PCM WAV or FLAC, for example with `sox` or `ffmpeg`", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The name of the container or the encoding.
        format: String,
    },
    /// A recording of the LDC in its compressed form.
    #[error("{}: its samples are compressed with shorten, which cannot be read; expand it with `sph2pipe -p -f wav` or `w_decode -o pcm`", path.display())]
    Shortened {
        /// The file.
        path: PathBuf,
    },
    /// A decoder gave up on a recording in a way that it never should.
    #[error("{}: the decoder of {format} files failed on it ({reason}); this is a fault of the decoder, whatever the file holds: please report it with the file, and convert the file meanwhile, for example with `sox` or `ffmpeg`", path.display())]
    Decoder {
        /// The file.
        path: PathBuf,
        /// The container.
        format: &'static str,
        /// What the decoder said last.
        reason: String,
    },
    /// The container breaks its own rules.
    #[error("{}: broken {format} file: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The container.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// There is less audio than the header promises.
    #[error("{}: truncated: the header promises {promised} but the file holds {found}; fetch or export it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What the header says, with its unit.
        promised: String,
        /// What is there.
        found: String,
    },
    /// A sound header and no sample, where some are needed.
    #[error("{}: the recording holds no samples", path.display())]
    NoSamples {
        /// The file.
        path: PathBuf,
    },
    /// A float recording with NaN or infinity.
    #[error("{}: sample {at} is {value}; features of it would be NaN, so export the recording again", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// Index of the sample (of one channel) in the recording.
        at: u64,
        /// Its value.
        value: f32,
    },
    /// Another sample rate than the features are made for.
    #[error("{}: sample rate is {found_hz} Hz but {wanted_hz} Hz is wanted; resample the files, train at their rate with features.sample_rate_hz = {found_hz}, or set data.resample = \"allow\"", path.display())]
    SampleRate {
        /// The file.
        path: PathBuf,
        /// The rate of the recording.
        found_hz: u32,
        /// The rate of the features.
        wanted_hz: u32,
    },
    /// Several channels and no word on which to use.
    #[error("{}: {channels} channels where one is expected; set data.channel = \"mix\" for their mean, or to the number of one (0 is the first)", path.display())]
    Channels {
        /// The file.
        path: PathBuf,
        /// How many it has.
        channels: usize,
    },
    /// The wanted channel does not exist.
    #[error("{}: data.channel asks for channel {index} (0 is the first) but the recording has {channels} channels", path.display())]
    NoSuchChannel {
        /// The file.
        path: PathBuf,
        /// The wanted channel.
        index: usize,
        /// How many there are.
        channels: usize,
    },
    /// An offset or a duration that is no length of time.
    #[error("{}: {seconds} is no offset or duration in seconds", path.display())]
    SegmentValue {
        /// The file.
        path: PathBuf,
        /// The value.
        seconds: f64,
    },
    /// The segment is not within the recording.
    #[error("{}: the segment from {offset_s} s{} is not within the recording of {recorded_s:.3} s", path.display(), duration_s.map(|d| format!(" of {d} s")).unwrap_or_default())]
    Segment {
        /// The file.
        path: PathBuf,
        /// Where the segment starts.
        offset_s: f64,
        /// Its length, when it has one.
        duration_s: Option<f64>,
        /// The length of the recording.
        recorded_s: f64,
    },
}
