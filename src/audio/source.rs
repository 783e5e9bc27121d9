//! The bytes of a recording, from a file or from memory (a member of a tar shard), with positions
//! counted from where the audio starts. What is read in all is bounded, so that a container whose
//! parts point back at themselves ends in an error and not in a loop.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use symphonia::core::io::MediaSource;

use super::AudioError;

/// A recording may be read this many times over: probing and seeking read parts twice or thrice.
const MAX_PASSES: u64 = 16;

/// Bytes and calls on top of that, for small files.
const SPARE_BYTES: u64 = 1 << 24;

enum Bytes<'a> {
    File(File),
    Memory(Cursor<&'a [u8]>),
}

/// A seekable window on a recording.
pub(super) struct Source<'a> {
    path: &'a Path,
    bytes: Bytes<'a>,
    /// Where position 0 lies in the file.
    start: u64,
    len: u64,
    /// Bytes that may still be read; a call costs a little too.
    budget: u64,
}

impl<'a> Source<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Source<'a>, AudioError> {
        let open_error = |source| AudioError::Open { path: path.into(), source };
        let file = File::open(path).map_err(open_error)?;
        let len = file.metadata().map_err(open_error)?.len();
        Ok(Source::new(path, Bytes::File(file), len))
    }

    pub(super) fn memory(path: &'a Path, bytes: &'a [u8]) -> Source<'a> {
        Source::new(path, Bytes::Memory(Cursor::new(bytes)), bytes.len() as u64)
    }

    fn new(path: &'a Path, bytes: Bytes<'a>, len: u64) -> Source<'a> {
        let budget = len.saturating_mul(MAX_PASSES).saturating_add(SPARE_BYTES);
        Source { path, bytes, start: 0, len, budget }
    }

    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    /// Bytes from position 0 to the end.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Makes `offset` (within the recording) the new position 0.
    pub(super) fn rebase(&mut self, offset: u64) {
        let offset = offset.min(self.len);
        self.start += offset;
        self.len -= offset;
    }

    /// Up to `len` bytes from `at` on: fewer only at the end.
    pub(super) fn bytes_at(&mut self, at: u64, len: usize) -> Result<Vec<u8>, AudioError> {
        let available = self.len.saturating_sub(at).min(len as u64);
        let mut bytes = Vec::with_capacity(available as usize);
        let path = self.path;
        self.seek(SeekFrom::Start(at))
            .and_then(|_| self.take(available).read_to_end(&mut bytes))
            .map_err(|source| AudioError::Read { path: path.into(), source })?;
        Ok(bytes)
    }

    pub(super) fn malformed(&self, format: &'static str, reason: impl Into<String>) -> AudioError {
        AudioError::Malformed { path: self.path.into(), format, reason: reason.into() }
    }

    pub(super) fn unsupported(&self, format: impl Into<String>) -> AudioError {
        AudioError::Unsupported { path: self.path.into(), format: format.into() }
    }

    fn spend(&mut self, cost: u64) -> io::Result<()> {
        self.budget = self
            .budget
            .checked_sub(cost)
            .ok_or_else(|| io::Error::other("its parts point at each other in a circle"))?;
        Ok(())
    }
}

impl Read for Source<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let num_read = match &mut self.bytes {
            Bytes::File(file) => file.read(out)?,
            Bytes::Memory(cursor) => cursor.read(out)?,
        };
        self.spend(num_read as u64 + 1)?;
        Ok(num_read)
    }
}

impl Seek for Source<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.spend(1)?;
        let to = match to {
            SeekFrom::Start(at) => SeekFrom::Start(self.start.saturating_add(at)),
            other => other,
        };
        let at = match &mut self.bytes {
            Bytes::File(file) => file.seek(to)?,
            Bytes::Memory(cursor) => cursor.seek(to)?,
        };
        at.checked_sub(self.start)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a seek before the start"))
    }
}

impl MediaSource for Source<'_> {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Scratch;
    use super::*;

    #[test]
    fn file_and_memory_give_the_same_window() {
        let scratch = Scratch::new("source");
        let bytes: Vec<u8> = (0..100).collect();
        let path = scratch.write("a", &bytes);
        for mut source in [Source::open(&path).unwrap(), Source::memory(&path, &bytes)] {
            source.rebase(10);
            assert_eq!(source.len(), 90);
            assert_eq!(source.bytes_at(5, 3).unwrap(), [15, 16, 17]);
            assert_eq!(source.bytes_at(88, 9).unwrap(), [98, 99]);
            assert!(source.bytes_at(1_000, 9).unwrap().is_empty());
            assert_eq!(source.seek(SeekFrom::End(-1)).unwrap(), 89);
            assert!(source.seek(SeekFrom::End(-95)).is_err());
        }
    }

    #[test]
    fn reading_in_circles_ends() {
        let bytes = [0; 1_000];
        let mut source = Source::memory(Path::new("a"), &bytes);
        let error = (0..).find_map(|_| source.bytes_at(0, 1_000).err()).unwrap();
        assert!(error.to_string().contains("circle"), "{error}");
    }
}
