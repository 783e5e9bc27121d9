//! Where the bytes of a recording are: a file of its own, or a stretch of a tar file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::audio::{self, AudioError, ReadOptions, Waveform};

/// Where a recording is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AudioSource {
    /// A file of its own.
    File(PathBuf),
    /// A member of an uncompressed tar file.
    Member {
        /// The tar file.
        tar: PathBuf,
        /// The member's name, for messages.
        name: String,
        /// Where its bytes are.
        span: Span,
    },
}

impl AudioSource {
    /// The file that is opened.
    pub fn file(&self) -> &Path {
        match self {
            AudioSource::File(path) => path,
            AudioSource::Member { tar, .. } => tar,
        }
    }

    /// What messages call it: the path, or those of the tar file and of its member.
    pub fn name(&self) -> PathBuf {
        match self {
            AudioSource::File(path) => path.clone(),
            AudioSource::Member { tar, name, .. } => tar.join(name),
        }
    }

    /// Reads the recording, or `duration_s` seconds of it from `offset_s` on. Of a member all bytes are
    /// read, whatever part of it is wanted.
    ///
    /// # Errors
    /// See [`AudioError`]; every variant has [`AudioSource::name`] for its path.
    pub fn read(
        &self,
        offset_s: Option<f64>,
        duration_s: Option<f64>,
        options: &ReadOptions,
    ) -> Result<Waveform, AudioError> {
        match self {
            AudioSource::File(path) => audio::read(path, offset_s, duration_s, options),
            AudioSource::Member { tar, span, .. } => {
                let name = self.name();
                let bytes = match File::open(tar) {
                    Ok(mut file) => span.read_from(&mut file),
                    Err(source) => return Err(AudioError::Open { path: name, source }),
                };
                match bytes {
                    Ok(bytes) => audio::read_bytes(&name, &bytes, offset_s, duration_s, options),
                    Err(source) => Err(AudioError::Read { path: name, source }),
                }
            }
        }
    }

    /// [`AudioSource::read`] of a recording whose bytes were read by someone else, or could not be.
    ///
    /// # Errors
    /// As [`AudioSource::read`].
    pub fn decode(
        &self,
        bytes: io::Result<&[u8]>,
        offset_s: Option<f64>,
        duration_s: Option<f64>,
        options: &ReadOptions,
    ) -> Result<Waveform, AudioError> {
        match bytes {
            Ok(bytes) => audio::read_bytes(&self.name(), bytes, offset_s, duration_s, options),
            Err(source) => Err(AudioError::Read { path: self.name(), source }),
        }
    }
}

impl fmt::Display for AudioSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().display().fmt(f)
    }
}

/// A stretch of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it starts.
    pub start: u64,
    /// How long it is.
    pub len: u64,
}

impl Span {
    /// Nothing.
    pub const EMPTY: Span = Span { start: 0, len: 0 };

    /// Whether it is nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its bytes; memory is taken for what the file holds, not for what the span claims.
    pub(super) fn read_from(&self, file: &mut File) -> io::Result<Vec<u8>> {
        file.seek(SeekFrom::Start(self.start))?;
        self.read_here(file)
    }

    /// The same where the reader stands at its start.
    pub(super) fn read_here(&self, reader: &mut impl Read) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        reader.take(self.len).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < self.len {
            let reason = format!(
                "the file ends {} bytes behind byte {}, where {} were expected: it has changed or is cut short",
                bytes.len(),
                self.start,
                self.len
            );
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::tests::{MONO_16K, Scratch, tone};

    #[test]
    fn a_member_is_heard_as_the_file_that_it_was() {
        let scratch = Scratch::new("member");
        let wav = scratch.wav("a.wav", 16_000, &[&tone(300.0, 16_000, 4_000)]);
        let files: [&[u8]; 3] = [
            &std::fs::read(&wav).unwrap(),
            include_bytes!("../../tests/fixtures/audio/tone.flac"),
            include_bytes!("../../tests/fixtures/audio/tone.ogg"),
        ];
        for bytes in files {
            let alone = AudioSource::File(scratch.write("alone", bytes));
            let tar = scratch.write("all.tar", &[&[7; 700], bytes, &[9; 700]].concat());
            let span = Span { start: 700, len: bytes.len() as u64 };
            let member =
                |span| AudioSource::Member { tar: tar.clone(), name: "x.wav".into(), span };
            for (offset, duration) in [(None, None), (Some(0.05), Some(0.1))] {
                let want = alone.read(offset, duration, &MONO_16K).unwrap();
                assert_eq!(member(span).read(offset, duration, &MONO_16K).unwrap(), want);
            }
            for span in [
                Span { len: span.len * 2 / 3, ..span },
                Span { start: 701, ..span },
                Span { len: 1 << 60, ..span },
                Span { start: 1 << 60, ..span },
            ] {
                let error = member(span).read(None, None, &MONO_16K).unwrap_err().to_string();
                assert!(error.contains("all.tar/x.wav"), "{error}");
            }
        }
        let tar = scratch.0.join("none.tar");
        let gone = AudioSource::Member { tar, name: "x".into(), span: Span { start: 0, len: 9 } };
        let error = gone.read(None, None, &MONO_16K).unwrap_err();
        assert!(matches!(error, AudioError::Open { .. }), "{error}");
    }
}
