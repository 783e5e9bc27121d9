//! Recordings of tar files read in rising order: each file is opened once and read front to back through a
//! buffer, as long as no more files than [`TarReader::new`] was told of are read in turn. Whoever asks in
//! another order gets the same bytes, by seeks that are counted.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Span;

/// Read at a time: disks that seek earn it back.
const BUFFER_LEN: usize = 1 << 20;

/// What reading took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Files opened.
    pub opened: usize,
    /// Recordings read.
    pub recordings: usize,
    /// Bytes of recordings read.
    pub bytes: u64,
    /// Recordings that lie before the one read from their file before them.
    pub backward: usize,
}

/// Open tar files, each with its place.
pub struct TarReader {
    /// The one used last is the last.
    open: Vec<OpenTar>,
    max_open: usize,
    counts: ReadCounts,
}

struct OpenTar {
    path: PathBuf,
    file: BufReader<File>,
    at: u64,
    /// The recording read last: others may be parts of it.
    last: (Span, Arc<Vec<u8>>),
}

impl TarReader {
    /// Keeps at most so many files open.
    pub fn new(max_open: usize) -> TarReader {
        TarReader { open: Vec::new(), max_open: max_open.max(1), counts: ReadCounts::default() }
    }

    /// What reading took so far.
    pub fn counts(&self) -> ReadCounts {
        self.counts
    }

    /// The bytes at `span` of the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be opened or read, or ends before them; the next call starts afresh.
    pub fn read(&mut self, path: &Path, span: Span) -> io::Result<Arc<Vec<u8>>> {
        let mut tar = match self.open.iter().position(|open| open.path == path) {
            Some(at) => self.open.remove(at),
            None => self.opened(path)?,
        };
        if tar.last.0 != span || span.is_empty() {
            self.counts.backward += usize::from(span.start < tar.at);
            match (i64::try_from(span.start), i64::try_from(tar.at)) {
                // Within the buffer this reads nothing again.
                (Ok(to), Ok(from)) => tar.file.seek_relative(to - from)?,
                _ => drop(tar.file.seek(SeekFrom::Start(span.start))?),
            }
            let bytes = span.read_here(&mut tar.file)?;
            tar.at = span.start + span.len;
            tar.last = (span, Arc::new(bytes));
            self.counts.recordings += 1;
            self.counts.bytes += span.len;
        }
        let bytes = Arc::clone(&tar.last.1);
        self.open.push(tar);
        Ok(bytes)
    }

    fn opened(&mut self, path: &Path) -> io::Result<OpenTar> {
        let file = BufReader::with_capacity(BUFFER_LEN, File::open(path)?);
        if self.open.len() >= self.max_open {
            self.open.remove(0);
        }
        self.counts.opened += 1;
        Ok(OpenTar { path: path.to_owned(), file, at: 0, last: (Span::EMPTY, Arc::default()) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Tree;
    use super::*;

    fn span(start: u64, len: u64) -> Span {
        Span { start, len }
    }

    #[test]
    fn any_order_reads_the_same_and_rising_order_never_goes_back() {
        let tree = Tree::new(&[]);
        let bytes: Vec<u8> =
            (0..3_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let paths: Vec<PathBuf> =
            (0..3).map(|i| tree.write(&format!("{i}.tar"), &bytes[i * 1_000..])).collect();
        let spans: Vec<Span> =
            (0..60_u64).map(|i| span(i * 50_000 + i % 7, 1 + i * 701 % 48_000)).collect();
        let want = |file: usize, span: Span| {
            let start = file * 1_000 + span.start as usize;
            bytes[start..start + span.len as usize].to_vec()
        };
        let mut rising = TarReader::new(3);
        for &span in &spans {
            for (file, path) in paths.iter().enumerate() {
                assert_eq!(*rising.read(path, span).unwrap(), want(file, span));
            }
        }
        let total = 3 * spans.iter().map(|span| span.len).sum::<u64>();
        let counts = ReadCounts { opened: 3, recordings: 180, bytes: total, backward: 0 };
        assert_eq!(rising.counts(), counts);
        let mut falling = TarReader::new(1);
        for &span in spans.iter().rev() {
            assert_eq!(*falling.read(&paths[1], span).unwrap(), want(1, span));
        }
        assert_eq!((falling.counts().opened, falling.counts().backward), (1, 59));
        falling.read(&paths[0], spans[0]).unwrap();
        falling.read(&paths[1], spans[0]).unwrap();
        assert_eq!(falling.counts().opened, 3, "one is open at a time");
    }

    #[test]
    fn parts_of_a_recording_share_its_bytes() {
        let tree = Tree::new(&[]);
        let path = tree.write("a.tar", &[3; 5_000]);
        let mut reader = TarReader::new(2);
        let first = reader.read(&path, span(100, 900)).unwrap();
        let second = reader.read(&path, span(100, 900)).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((reader.counts().recordings, reader.counts().backward), (1, 0));
    }

    #[test]
    fn what_is_not_there_is_an_error_and_the_next_is_read() {
        let tree = Tree::new(&[]);
        let path = tree.write("a.tar", &[3; 5_000]);
        let mut reader = TarReader::new(2);
        assert!(reader.read(&tree.path("none.tar"), span(0, 9)).is_err());
        let error = reader.read(&path, span(4_990, 1 << 60)).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{error}");
        assert!(reader.read(&path, span(1 << 63, 9)).is_err());
        assert_eq!(*reader.read(&path, span(4_990, 10)).unwrap(), [3; 10]);
    }
}
