//! Recordings as mono samples in [-1, 1] at one sample rate.
//!
//! The container is told by its content, never by the file's name, and lengths are those of the
//! decoded samples, never those a header claims. Refused, each with a typed error that names the file:
//! several channels or another sample rate unless the caller asks for them, truncated audio, NaN and
//! infinite samples, encodings without a decoder here.
//!
//! | container | encodings | a segment costs |
//! | --- | --- | --- |
//! | WAV (RIFF, RIFX, RF64, BW64, Wave64) | PCM of 1 to 8 bytes, float, A-law, mu-law, IMA and MS ADPCM, GSM 6.10 | the segment (GSM: from the start) |
//! | AIFF, AIFF-C, CAF, Sun AU, NIST SPHERE | PCM, float, A-law, mu-law | the segment |
//! | FLAC | | the segment |
//! | Ogg | Vorbis, FLAC, Opus | the segment; Opus five seconds more |
//! | MP3 | layers I to III | the headers before it, two seconds more |
//! | MP4 | AAC-LC, ALAC, MP3 | the segment, half a second more |
//! | ADTS, Matroska/WebM, compressed CAF | AAC-LC, Opus, Vorbis, FLAC, ALAC | from the start |
//!
//! Segments are sample-exact cuts of the whole (fullband Opus and AAC with noise substitution: nearly).
//! Opus comes at the rate its encoder was fed with, if that is 8, 12, 16, 24 or 48 kHz, else at 48 kHz.
//! Encoder delay and padding are removed where the file says
//! how long they are: Ogg granules, LAME's tag in MP3, MP4's edit list.

mod adpcm;
mod aiff;
mod au;
mod caf;
mod channel;
mod chunks;
mod compressed;
mod decoder;
mod error;
#[cfg(test)]
mod forge;
#[cfg(test)]
mod fuzz;
mod gsm;
mod guard;
mod law;
#[cfg(test)]
mod laws;
mod layout;
mod mp4;
mod mpeg;
#[cfg(test)]
mod mutate;
mod ogg;
#[cfg(feature = "opus")]
mod opus;
mod pcm;
mod resample;
mod seek;
mod sniff;
mod source;
mod sphere;
mod stream;
mod wav;
mod wav_samples;

pub use channel::Channel;
pub use error::AudioError;
pub use resample::{perturbed_len, resample, resampled_len, speed_perturb};

use std::path::Path;

use serde::{Deserialize, Serialize};

use channel::ChannelPicker;
use sniff::Container;
use source::Source;

/// What to do with a recording whose sample rate is not the wanted one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resample {
    /// Refuse it: a wrong rate is most often a wrong file.
    #[default]
    Error,
    /// Convert it with a band-limited resampler.
    Allow,
}

/// How recordings are read: the same for every utterance of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// The rate of the returned samples.
    pub sample_rate_hz: u32,
    /// Which channel of a recording with several is used.
    pub channel: Channel,
    /// Whether another sample rate is converted.
    pub resample: Resample,
}

/// Mono audio.
#[derive(Clone, Debug, PartialEq)]
pub struct Waveform {
    /// Samples in [-1, 1] (float files and resampling may overshoot a little).
    pub samples: Vec<f32>,
    /// Samples per second.
    pub sample_rate_hz: u32,
    /// Samples per second of the recording itself.
    pub recorded_hz: u32,
    /// Channels of the recording itself.
    pub num_channels: usize,
}

impl Waveform {
    /// Length in seconds.
    pub fn duration_s(&self) -> f64 {
        self.samples.len() as f64 / f64::from(self.sample_rate_hz)
    }
}

/// A segment may reach this far past the end of its recording: manifests round.
const SEGMENT_TOLERANCE_S: f64 = 0.1;

/// Rates outside are refused: no recorder makes them, and a resampler would allocate for them.
const PLAUSIBLE_RATES_HZ: std::ops::RangeInclusive<u32> = 1_000..=768_000;

/// A part of a recording, in seconds of the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    offset_s: f64,
    duration_s: Option<f64>,
}

impl Segment {
    const WHOLE: Segment = Segment { offset_s: 0.0, duration_s: None };

    fn new(
        path: &Path,
        offset_s: Option<f64>,
        duration_s: Option<f64>,
    ) -> Result<Segment, AudioError> {
        for seconds in [offset_s, duration_s].into_iter().flatten() {
            if !seconds.is_finite() || seconds < 0.0 {
                return Err(AudioError::SegmentValue { path: path.into(), seconds });
            }
        }
        Ok(Segment { offset_s: offset_s.unwrap_or(0.0), duration_s })
    }

    fn is_whole(&self) -> bool {
        *self == Segment::WHOLE
    }

    /// First frame and one past the last (`u64::MAX` for "to the end") at the file's own rate.
    fn frames(&self, rate_hz: u32) -> (u64, u64) {
        let at = |seconds: f64| (seconds * f64::from(rate_hz)).round() as u64;
        let start = at(self.offset_s);
        (start, self.duration_s.map_or(u64::MAX, |d| start.saturating_add(at(d))))
    }
}

/// Mono samples of one segment, at the rate of the file.
struct Decoded {
    samples: Vec<f32>,
    rate_hz: u32,
    /// Frames of the whole recording, as far as it was decoded or measured.
    num_frames: u64,
}

/// Reads a recording, or `duration_s` seconds of it from `offset_s` on. A recording with a sound header
/// and no samples gives none.
///
/// # Errors
/// See [`AudioError`]; every variant names the path.
pub fn read(
    path: &Path,
    offset_s: Option<f64>,
    duration_s: Option<f64>,
    options: &ReadOptions,
) -> Result<Waveform, AudioError> {
    let segment = Segment::new(path, offset_s, duration_s)?;
    read_source(Source::open(path)?, segment, options)
}

/// The same for a recording in memory, such as a member of a tar shard; `name` is for messages.
///
/// # Errors
/// See [`AudioError`]; every variant has the name for its path.
pub fn read_bytes(
    name: &Path,
    bytes: &[u8],
    offset_s: Option<f64>,
    duration_s: Option<f64>,
    options: &ReadOptions,
) -> Result<Waveform, AudioError> {
    let segment = Segment::new(name, offset_s, duration_s)?;
    read_source(Source::memory(name, bytes), segment, options)
}

/// Whether bytes are the start of a recording, readable here or not.
pub fn is_recording(start: &[u8]) -> bool {
    let told = sniff::sniff(&mut Source::memory(Path::new(""), start));
    matches!(told, Ok(_) | Err(AudioError::Unsupported { .. }))
}

fn read_source(
    mut source: Source,
    segment: Segment,
    options: &ReadOptions,
) -> Result<Waveform, AudioError> {
    let path = source.path();
    let picker = ChannelPicker::new(options.channel, path);
    let container = sniff::sniff(&mut source)?;
    let layout = match container {
        Container::Wav(header) => Some(wav::layout(&mut source, header)?),
        Container::Aiff => Some(aiff::layout(&mut source)?),
        Container::Au => Some(au::layout(&mut source)?),
        Container::Sphere => Some(sphere::layout(&mut source)?),
        Container::Caf => caf::layout(&mut source)?,
        _ => None,
    };
    let decoded = match layout {
        Some(layout) => layout.decode(&mut source, segment, &picker)?,
        None => compressed::decode(source, container, segment, &picker)?,
    };
    finish(path, decoded, picker.num_channels(), segment, options)
}

/// The checks and the conversion that all containers share.
fn finish(
    path: &Path,
    decoded: Decoded,
    num_channels: usize,
    segment: Segment,
    options: &ReadOptions,
) -> Result<Waveform, AudioError> {
    let Decoded { mut samples, rate_hz, num_frames } = decoded;
    let waveform = |samples| Waveform {
        samples,
        sample_rate_hz: options.sample_rate_hz,
        recorded_hz: rate_hz,
        num_channels,
    };
    if num_frames == 0 && segment.is_whole() {
        return Ok(waveform(samples));
    }
    let (start, end) = segment.frames(rate_hz);
    let slack = (SEGMENT_TOLERANCE_S * f64::from(rate_hz)) as u64;
    if samples.is_empty() || start >= num_frames || (end != u64::MAX && end > num_frames + slack) {
        return Err(AudioError::Segment {
            path: path.into(),
            offset_s: segment.offset_s,
            duration_s: segment.duration_s,
            recorded_s: num_frames as f64 / f64::from(rate_hz),
        });
    }
    if let Some(at) = samples.iter().position(|x| !x.is_finite()) {
        return Err(AudioError::NotFinite {
            path: path.into(),
            at: start + at as u64,
            value: samples[at],
        });
    }
    if rate_hz != options.sample_rate_hz {
        if options.resample == Resample::Error {
            return Err(AudioError::SampleRate {
                path: path.into(),
                found_hz: rate_hz,
                wanted_hz: options.sample_rate_hz,
            });
        }
        samples = resample(&samples, rate_hz, options.sample_rate_hz);
    }
    Ok(waveform(samples))
}

/// Refuses rates that no recorder makes.
fn check_rate(path: &Path, format: &'static str, rate_hz: u32) -> Result<(), AudioError> {
    if PLAUSIBLE_RATES_HZ.contains(&rate_hz) {
        return Ok(());
    }
    Err(AudioError::Malformed {
        path: path.into(),
        format,
        reason: format!("its header claims a sample rate of {rate_hz} Hz"),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::PathBuf;

    pub(crate) const MONO_16K: ReadOptions = ReadOptions {
        sample_rate_hz: 16_000,
        channel: Channel::MonoOnly,
        resample: Resample::Error,
    };

    /// A fresh directory, removed when dropped.
    pub(crate) struct Scratch(pub PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Scratch {
            let dir = std::env::temp_dir().join(format!("asr-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir).unwrap();
            Scratch(dir)
        }

        pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        }

        /// Writes 16-bit PCM with one column of `frames` a channel.
        pub(crate) fn wav(&self, name: &str, rate_hz: u32, channels: &[&[f32]]) -> PathBuf {
            let path = self.0.join(name);
            let spec = hound::WavSpec {
                channels: channels.len() as u16,
                sample_rate: rate_hz,
                bits_per_sample: 16,
                sample_format: hound::SampleFormat::Int,
            };
            let mut writer = hound::WavWriter::create(&path, spec).unwrap();
            for i in 0..channels[0].len() {
                for channel in channels {
                    writer.write_sample((channel[i] * 32767.0).round() as i16).unwrap();
                }
            }
            writer.finalize().unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    pub(crate) fn tone(hz: f64, rate_hz: u32, len: usize) -> Vec<f32> {
        (0..len)
            .map(|i| {
                (0.5 * (std::f64::consts::TAU * hz * i as f64 / f64::from(rate_hz)).sin()) as f32
            })
            .collect()
    }

    #[test]
    fn a_segment_is_the_same_as_a_cut_of_the_whole() {
        let scratch = Scratch::new("segment");
        let path = scratch.wav("a.wav", 16_000, &[&tone(300.0, 16_000, 8_000)]);
        let whole = read(&path, None, None, &MONO_16K).unwrap();
        let part = read(&path, Some(0.1), Some(0.2), &MONO_16K).unwrap();
        assert_eq!(part.samples, whole.samples[1_600..4_800]);
        let tail = read(&path, Some(0.4), None, &MONO_16K).unwrap();
        assert_eq!(tail.samples, whole.samples[6_400..]);
        let rounded = read(&path, Some(0.4), Some(0.15), &MONO_16K).unwrap();
        assert_eq!(rounded.samples.len(), 1_600, "50 ms past the end is clipped");
    }

    #[test]
    fn a_segment_outside_the_recording_names_both_lengths() {
        let scratch = Scratch::new("outside");
        let path = scratch.wav("a.wav", 16_000, &[&tone(300.0, 16_000, 8_000)]);
        for (offset, duration) in [(0.6, None), (0.4, Some(0.3)), (0.5, None)] {
            let error = read(&path, Some(offset), duration, &MONO_16K).unwrap_err();
            assert!(matches!(error, AudioError::Segment { .. }), "{error}");
            assert!(error.to_string().contains("0.5"), "{error}");
        }
        for bad in [f64::NAN, -1.0] {
            assert!(matches!(
                read(&path, Some(bad), None, &MONO_16K),
                Err(AudioError::SegmentValue { .. })
            ));
        }
    }

    #[test]
    fn another_sample_rate_is_refused_unless_allowed() {
        let scratch = Scratch::new("rate");
        let path = scratch.wav("a.wav", 8_000, &[&tone(300.0, 8_000, 8_000)]);
        let text = read(&path, None, None, &MONO_16K).unwrap_err().to_string();
        for part in ["a.wav", "8000", "16000", "data.resample"] {
            assert!(text.contains(part), "{text}");
        }
        let allow = ReadOptions { resample: Resample::Allow, ..MONO_16K };
        let waveform = read(&path, None, None, &allow).unwrap();
        assert_eq!((waveform.samples.len(), waveform.duration_s()), (16_000, 1.0));
        assert_eq!((waveform.sample_rate_hz, waveform.recorded_hz), (16_000, 8_000));
    }

    #[test]
    fn channels_are_never_mixed_unasked() {
        let scratch = Scratch::new("channels");
        let (left, right) = (tone(300.0, 16_000, 1_000), vec![0.25; 1_000]);
        let path = scratch.wav("a.wav", 16_000, &[&left, &right]);
        let text = read(&path, None, None, &MONO_16K).unwrap_err().to_string();
        assert!(text.contains("2 channels") && text.contains("data.channel"), "{text}");
        let get = |channel| read(&path, None, None, &ReadOptions { channel, ..MONO_16K });
        assert_eq!(get(Channel::Mix).unwrap().num_channels, 2);
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(close(&get(Channel::Index(0)).unwrap().samples, &left));
        assert!(close(&get(Channel::Index(1)).unwrap().samples, &right));
        let mean: Vec<f32> = left.iter().map(|x| (x + 0.25) / 2.0).collect();
        assert!(close(&get(Channel::Mix).unwrap().samples, &mean));
        let text = get(Channel::Index(2)).unwrap_err().to_string();
        assert!(text.contains("channel 2") && text.contains("2 channels"), "{text}");
    }

    #[test]
    fn what_is_not_audio_says_what_it_is() {
        let scratch = Scratch::new("not-audio");
        let cases: &[(&str, &[u8], &str)] = &[
            ("a.wav", b"", "empty"),
            ("b.wav", b"<!DOCTYPE html><html></html>", "web page"),
            ("c.flac", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
            ("d.wav", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "first bytes"),
            ("e.mp3", b"ID3\x04\0\0\0\0\0\0\xff\xfb\x90\x64\0\0\0\0\0\0\0\0", "MP3"),
            ("f.wav", b"RIFX\0\0\0\0WAVEfmt ", "RIFX"),
            ("g.wav", b"RIFF\0\0\0\0WAVE", "no"),
        ];
        for (name, bytes, want) in cases {
            let path = scratch.write(name, bytes);
            let text = read(&path, None, None, &MONO_16K).unwrap_err().to_string();
            assert!(text.contains(want) && text.contains(name), "{name}: {text}");
        }
        let missing = read(&scratch.0.join("none.wav"), None, None, &MONO_16K).unwrap_err();
        assert!(matches!(missing, AudioError::Open { .. }));
        let directory = read(&scratch.0, None, None, &MONO_16K).unwrap_err();
        assert!(directory.to_string().contains("asr-"), "{directory}");
    }
}
