//! Where the bytes of a recording are: a file of its own, or a stretch of a tar file. A [`Window`] makes
//! the second look like the first.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use symphonia::core::io::MediaSource;

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
}

/// A stretch of a file that reads and seeks as if it were all there is.
pub(super) struct Window {
    file: File,
    span: Span,
    at: u64,
}

impl Window {
    /// Opens a recording; a member that reaches past the end of its tar file ends there.
    pub fn open(source: &AudioSource) -> io::Result<Window> {
        let mut file = File::open(source.file())?;
        let file_len = file.metadata()?.len();
        let span = match source {
            AudioSource::File(_) => Span { start: 0, len: file_len },
            AudioSource::Member { span, .. } => {
                Span { len: span.len.min(file_len.saturating_sub(span.start)), ..*span }
            }
        };
        file.seek(SeekFrom::Start(span.start))?;
        Ok(Window { file, span, at: 0 })
    }

    /// Bytes in all.
    pub fn len(&self) -> u64 {
        self.span.len
    }
}

impl Read for Window {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.span.len.saturating_sub(self.at);
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let got = self.file.read(&mut buffer[..wanted])?;
        self.at += got as u64;
        Ok(got)
    }
}

impl Seek for Window {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.span.len.checked_add_signed(by),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "a seek to before the start");
        let at = at.ok_or_else(outside)?;
        let absolute = self.span.start.checked_add(at).ok_or_else(outside)?;
        self.file.seek(SeekFrom::Start(absolute))?;
        self.at = at;
        Ok(at)
    }
}

impl MediaSource for Window {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.span.len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MONO_16K, Scratch, tone};
    use super::super::{read, read_source};
    use super::*;

    #[test]
    fn a_member_is_heard_as_the_file_that_it_was() {
        let scratch = Scratch::new("window");
        let wav = scratch.wav("a.wav", 16_000, &[&tone(300.0, 16_000, 4_000)]);
        let files: [&[u8]; 3] = [
            &std::fs::read(&wav).unwrap(),
            include_bytes!("../../tests/fixtures/audio/tone.flac"),
            include_bytes!("../../tests/fixtures/audio/tone.ogg"),
        ];
        for bytes in files {
            let alone = scratch.write("alone", bytes);
            let tar = scratch.write("all.tar", &[&[7; 700], bytes, &[9; 700]].concat());
            let span = Span { start: 700, len: bytes.len() as u64 };
            let member = AudioSource::Member { tar: tar.clone(), name: "x.wav".into(), span };
            for (offset, duration) in [(None, None), (Some(0.05), Some(0.1))] {
                let want = read(&alone, offset, duration, &MONO_16K).unwrap();
                assert_eq!(read_source(&member, offset, duration, &MONO_16K).unwrap(), want);
            }
            let span = Span { len: span.len * 2 / 3, ..span };
            let cut = AudioSource::Member { tar, name: "x.wav".into(), span };
            let error = read_source(&cut, None, None, &MONO_16K).unwrap_err().to_string();
            assert!(error.contains("all.tar/x.wav"), "{error}");
        }
    }

    #[test]
    fn a_window_reads_and_seeks_like_the_bytes_inside_it() {
        let scratch = Scratch::new("window-seek");
        let bytes: Vec<u8> = (0..200).collect();
        let tar = scratch.write("all.tar", &bytes);
        let span = Span { start: 50, len: 100 };
        let member = AudioSource::Member { tar: tar.clone(), name: "x".into(), span };
        let mut window = Window::open(&member).unwrap();
        let mut twin = io::Cursor::new(bytes[50..150].to_vec());
        let moves =
            [SeekFrom::Start(30), SeekFrom::End(-10), SeekFrom::Current(-40), SeekFrom::Start(120)];
        for to in moves {
            assert_eq!(window.seek(to).unwrap(), twin.seek(to).unwrap());
            let (mut got, mut want) = (Vec::new(), Vec::new());
            Read::by_ref(&mut window).take(25).read_to_end(&mut got).unwrap();
            Read::by_ref(&mut twin).take(25).read_to_end(&mut want).unwrap();
            assert_eq!(got, want, "{to:?}");
        }
        assert!(window.seek(SeekFrom::Current(-1_000)).is_err());
        let beyond =
            AudioSource::Member { tar, name: "x".into(), span: Span { start: 190, len: 50 } };
        assert_eq!(Window::open(&beyond).unwrap().len(), 10);
    }
}
