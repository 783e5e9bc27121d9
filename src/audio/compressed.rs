//! Compressed recordings through symphonia's demultiplexers and decoders. Nothing passes as shorter than
//! it was: FLAC is checked against the length and the MD5 that its encoder wrote, Ogg for its last page,
//! MP3 and MP4 against the frames they promise. What encoders add in front and behind is taken off where
//! the file says how much: Ogg's granules, LAME's tag, MP4's edit list.

use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use symphonia::core::errors::Error;
use symphonia::core::formats::{FormatOptions, FormatReader};
use symphonia::core::io::{MediaSourceStream, ReadBytes};
use symphonia::default::formats;

use super::channel::ChannelPicker;
use super::sniff::Container;
use super::source::Source;
use super::stream::Stream;
use super::{AudioError, Decoded, Segment, guard, mp4, ogg};

/// Names for messages.
fn name(container: Container) -> &'static str {
    match container {
        Container::Flac => "FLAC",
        Container::Ogg => "Ogg",
        Container::Mpeg => "MP3",
        Container::Adts => "AAC",
        Container::Mp4 => "MP4",
        Container::Matroska => "Matroska/WebM",
        Container::Caf => "CAF",
        Container::Wav(_) | Container::Aiff | Container::Au | Container::Sphere => "PCM",
    }
}

/// Decodes a segment. A panic of a decoder becomes an error here and nowhere else.
pub(super) fn decode(
    mut source: Source,
    container: Container,
    segment: Segment,
    picker: &ChannelPicker,
) -> Result<Decoded, AudioError> {
    let (path, format) = (source.path(), name(container));
    guard::guarded(path, format, || {
        let end = match container {
            Container::Ogg => Some(ogg::find_end(&mut source)?),
            _ => None,
        };
        let edit = match container {
            Container::Mp4 => mp4::first_edit(&mut source)?,
            _ => None,
        };
        let failure = Failure { path, format };
        source.seek(SeekFrom::Start(0)).map_err(|error| failure.explain(error.into()))?;
        let bytes = MediaSourceStream::new(Box::new(source), Default::default());
        let mut stream = Stream::new(open(bytes, container), container, failure, edit, segment)?;
        if let Some(seek) = stream.plan_seek(segment, end.as_ref()) {
            if let Some(decoded) = stream.decode_behind(&seek, picker) {
                stream.retire();
                return Ok(decoded);
            }
            let mut bytes = stream.into_bytes();
            bytes.seek(SeekFrom::Start(0)).map_err(|error| failure.explain(error.into()))?;
            stream = Stream::new(open(bytes, container), container, failure, edit, segment)?;
        }
        let decoded = stream.decode_from_start(segment, picker)?;
        stream.retire();
        Ok(decoded)
    })
}

fn open(
    mut bytes: MediaSourceStream<'_>,
    container: Container,
) -> Result<Box<dyn FormatReader + '_>, Error> {
    let options = FormatOptions::default();
    Ok(match container {
        Container::Flac => Box::new(formats::FlacReader::try_new(bytes, options)?),
        Container::Ogg => Box::new(formats::OggReader::try_new(bytes, options)?),
        Container::Mpeg => Box::new(formats::MpaReader::try_new(bytes, options)?),
        Container::Adts => Box::new(formats::AdtsReader::try_new(bytes, options)?),
        Container::Matroska => Box::new(formats::MkvReader::try_new(bytes, options)?),
        Container::Mp4 => {
            // This reader expects to stand behind the size of the first box.
            bytes.ignore_bytes(4)?;
            Box::new(formats::IsoMp4Reader::try_new(bytes, options)?)
        }
        _ => Box::new(formats::CafReader::try_new(bytes, options)?),
    })
}

/// Turns the library's errors into ours.
#[derive(Clone, Copy)]
pub(super) struct Failure<'a> {
    pub path: &'a Path,
    pub format: &'static str,
}

impl Failure<'_> {
    pub(super) fn malformed(self, reason: impl Into<String>) -> AudioError {
        let (path, format) = (self.path.into(), self.format);
        AudioError::Malformed { path, format, reason: reason.into() }
    }

    pub(super) fn explain(self, error: Error) -> AudioError {
        match error {
            Error::IoError(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
                self.malformed("it ends too early")
            }
            Error::IoError(source) => AudioError::Read { path: self.path.into(), source },
            // Symphonia's word for a part that a cut copy has lost, too.
            Error::Unsupported(what) if what.contains("missing") => self.malformed(what),
            Error::Unsupported(what) => AudioError::Unsupported {
                path: self.path.into(),
                format: format!("{} with this feature ({what})", self.format),
            },
            Error::ResetRequired => self.malformed("several streams follow each other"),
            other => self.malformed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MONO_16K, Scratch, tone};
    use super::super::{Channel, ReadOptions, read};
    use super::*;

    const TONE_FLAC: &[u8] = include_bytes!("../../tests/fixtures/audio/tone.flac");
    const TONE_OGG: &[u8] = include_bytes!("../../tests/fixtures/audio/tone.ogg");
    const STEREO_FLAC: &[u8] = include_bytes!("../../tests/fixtures/audio/stereo.flac");

    fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn flac_is_exact_and_vorbis_close_whatever_the_file_is_called() {
        let scratch = Scratch::new("compressed");
        let want = tone(440.0, 16_000, 4_800);
        for (name, bytes, tolerance) in [("a.wav", TONE_FLAC, 2e-3), ("a.flac", TONE_OGG, 0.05)] {
            let got = read(&scratch.write(name, bytes), None, None, &MONO_16K).unwrap();
            assert_eq!(got.samples.len(), 4_800);
            assert!(largest_difference(&got.samples, &want) < tolerance, "{name}");
        }
    }

    #[test]
    fn a_segment_is_a_cut_of_the_whole() {
        let scratch = Scratch::new("compressed-segment");
        for bytes in [TONE_FLAC, TONE_OGG] {
            let path = scratch.write("a", bytes);
            let whole = read(&path, None, None, &MONO_16K).unwrap().samples;
            let part = read(&path, Some(0.1), Some(0.05), &MONO_16K).unwrap().samples;
            assert_eq!(part, whole[1_600..2_400]);
        }
    }

    #[test]
    fn channels_stay_apart() {
        let scratch = Scratch::new("compressed-stereo");
        let path = scratch.write("a.flac", STEREO_FLAC);
        assert!(matches!(
            read(&path, None, None, &MONO_16K),
            Err(AudioError::Channels { channels: 2, .. })
        ));
        for (index, hz) in [(0, 440.0), (1, 880.0)] {
            let options = ReadOptions { channel: Channel::Index(index), ..MONO_16K };
            let got = read(&path, None, None, &options).unwrap().samples;
            assert!(largest_difference(&got, &tone(hz, 16_000, 3_200)) < 2e-3);
        }
    }

    #[test]
    fn no_cut_copy_passes_for_a_shorter_recording() {
        let scratch = Scratch::new("compressed-cut");
        for bytes in [TONE_FLAC, TONE_OGG] {
            for cut in (1..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
                let path = scratch.write("a", &bytes[..cut]);
                assert!(read(&path, None, None, &MONO_16K).is_err(), "{cut} of {}", bytes.len());
            }
            let path = scratch.write("a", &bytes[..bytes.len() * 2 / 3]);
            let error = read(&path, None, None, &MONO_16K).unwrap_err();
            assert!(matches!(error, AudioError::Truncated { .. }), "{error}");
        }
    }

    #[test]
    fn damaged_flac_is_noticed_and_damage_never_panics() {
        let scratch = Scratch::new("compressed-damage");
        for (bytes, checked) in [(TONE_FLAC, true), (TONE_OGG, false)] {
            let middle = bytes.len() / 2;
            for at in [4, 10, 30, middle, middle + 1, bytes.len() - 3] {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 0x55;
                let result = read(&scratch.write("a", &damaged), None, None, &MONO_16K);
                assert!(!checked || at < middle || result.is_err(), "{at}");
            }
        }
    }
}
