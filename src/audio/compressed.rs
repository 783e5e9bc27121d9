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
                return Ok(decoded);
            }
            let mut bytes = stream.into_bytes();
            bytes.seek(SeekFrom::Start(0)).map_err(|error| failure.explain(error.into()))?;
            stream = Stream::new(open(bytes, container), container, failure, edit, segment)?;
        }
        stream.decode_from_start(segment, picker)
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
            Error::Unsupported(what) => AudioError::Unsupported {
                path: self.path.into(),
                format: format!("{} with this feature ({what})", self.format),
            },
            Error::ResetRequired => self.malformed("several streams follow each other"),
            other => self.malformed(other.to_string()),
        }
    }
}
