//! Lines of any number, parsed on all cores in bounded memory: a byte-order mark, CRLF and blank lines
//! are accepted, and gzip is told by its content.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use rayon::prelude::*;

use super::ManifestError;
use super::build::{Builder, Entry, Malformed};

/// Read at a time.
const BLOCK_LEN: usize = 8 << 20;
/// Parsed at a time by one thread.
const PIECE_LEN: usize = 256 << 10;
/// No line of any data set is longer; what has no line breaks is no text.
pub(super) const MAX_LINE_LEN: usize = 64 << 20;

/// What a line is.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed<'a> {
    Utterance(Entry<'a>),
    /// No utterance, and why.
    Skip(&'static str),
}

pub(super) type ParsedLine<'a> = Result<Parsed<'a>, Malformed>;

/// Opens a file that may be compressed.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let is_gzip = io::BufRead::fill_buf(&mut file)?.starts_with(&[0x1f, 0x8b]);
    Ok(if is_gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// Every line of the file at `path`, parsed by `parse`, into `builder`.
pub(super) fn read_into(
    builder: &mut Builder,
    path: &Path,
    parse: impl for<'a> Fn(&'a [u8]) -> ParsedLine<'a> + Sync,
) -> Result<(), ManifestError> {
    let failed = |source| ManifestError::Read { path: path.into(), source };
    builder.start_source(path);
    let mut reader = open(path).map_err(failed)?;
    for_each(&mut reader, parse, |line, parsed| match parsed {
        Ok(Parsed::Utterance(entry)) => builder.push(line, &entry),
        Ok(Parsed::Skip(reason)) => builder.skip_line(reason, line),
        Err(malformed) => builder.malformed(line, malformed),
    })
    .map_err(failed)
}

/// Calls `parse` on every line that is not blank, on all cores, and `take` with the line's number and
/// the result, in order.
pub(super) fn for_each(
    reader: &mut dyn Read,
    parse: impl for<'a> Fn(&'a [u8]) -> ParsedLine<'a> + Sync,
    mut take: impl FnMut(usize, ParsedLine),
) -> io::Result<()> {
    let mut block: Vec<u8> = Vec::with_capacity(BLOCK_LEN);
    let mut line = 1;
    let mut is_first = true;
    loop {
        // What is left of the last block is the start of a line.
        let wanted = BLOCK_LEN.max(2 * block.len()) - block.len();
        let got = (&mut *reader).take(wanted as u64).read_to_end(&mut block)?;
        let is_last = got < wanted;
        let end = if is_last {
            block.len()
        } else {
            block.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        if end == 0 && !is_last {
            if block.len() > MAX_LINE_LEN {
                let reason = format!("line {line} is longer than {} MiB", MAX_LINE_LEN >> 20);
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            continue;
        }
        let mut text = &block[..end];
        if is_first {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            is_first = false;
        }
        let parsed: Vec<(usize, Vec<(usize, ParsedLine)>)> =
            pieces(text).into_par_iter().map(|piece| parse_piece(piece, &parse)).collect();
        for (num_lines, lines) in parsed {
            for (below, parsed) in lines {
                take(line + below, parsed);
            }
            line += num_lines;
        }
        if is_last {
            return Ok(());
        }
        block.drain(..end);
    }
}

/// Cuts at line ends.
fn pieces(mut text: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::with_capacity(text.len() / PIECE_LEN + 1);
    while text.len() > PIECE_LEN {
        let Some(at) = text[PIECE_LEN..].iter().position(|byte| *byte == b'\n') else { break };
        let (piece, rest) = text.split_at(PIECE_LEN + at + 1);
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

/// The number of line ends, and the lines that are not blank with their distance from the first.
fn parse_piece<'a>(
    piece: &'a [u8],
    parse: &(impl Fn(&'a [u8]) -> ParsedLine<'a> + Sync),
) -> (usize, Vec<(usize, ParsedLine<'a>)>) {
    let mut lines = Vec::new();
    let mut num_lines = 0;
    for (at, bytes) in piece.split(|byte| *byte == b'\n').enumerate() {
        num_lines = at;
        if !bytes.iter().all(u8::is_ascii_whitespace) {
            lines.push((at, parse(bytes)));
        }
    }
    (num_lines, lines)
}

/// The lines of a file in memory that are not blank, counted from 1, without a byte-order mark.
pub(crate) fn lines_of(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let lines = bytes.split(|byte| *byte == b'\n').enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace))
}

/// A line as text.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|error| Malformed {
        column: Some(error.valid_up_to() + 1),
        reason: "the line is not UTF-8; convert the file, such as by `iconv -t UTF-8`".into(),
    })
}

/// The first word of a line and what follows it, both without blanks around them.
pub(super) fn word_and_rest(line: &str) -> (&str, &str) {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn as_text(bytes: &[u8]) -> ParsedLine<'_> {
        let text = Cow::Borrowed(utf8(bytes)?.trim());
        Ok(Parsed::Utterance(Entry { text, ..Entry::default() }))
    }

    /// Hands out a few bytes at a time.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = buffer.len().min(7 + self.0.len() % 13);
            self.0.read(&mut buffer[..len])
        }
    }

    fn lines(mut reader: impl Read) -> Vec<(usize, String)> {
        let mut lines = Vec::new();
        for_each(&mut reader, as_text, |line, parsed| match parsed {
            Ok(Parsed::Utterance(entry)) => lines.push((line, entry.text.into_owned())),
            other => panic!("{other:?}"),
        })
        .unwrap();
        lines
    }

    #[test]
    fn lines_keep_their_numbers_over_pieces_and_blocks() {
        let mut text = String::from("\u{feff}first\r\n\r\n");
        let mut want = vec![(1, "first".to_owned())];
        for line in 3..300_000 {
            if line % 3 == 0 {
                text.push('\n');
            } else {
                text += &format!("line {line} {}.\n", "x".repeat(line % 97));
                want.push((line, format!("line {line} {}.", "x".repeat(line % 97))));
            }
        }
        text.push_str("last");
        want.push((300_000, "last".into()));
        assert!(text.len() > BLOCK_LEN && text.len() > 4 * PIECE_LEN);
        assert!(lines(text.as_bytes()) == want, "there are too many to print");
        assert!(lines(Trickle(text.as_bytes())) == want, "a few bytes at a time");
    }

    #[test]
    fn a_file_without_line_breaks_is_refused_in_bounded_memory() {
        let mut endless = io::repeat(b'x').take(1 << 30);
        let error = for_each(&mut endless, as_text, |_, _| panic!("no line")).unwrap_err();
        assert!(error.to_string().contains("line 1 is longer than 64 MiB"), "{error}");
        assert!(lines(io::empty()).is_empty());
    }

    #[test]
    fn what_is_not_utf8_names_the_column() {
        let error = as_text(b"ab\xffc").unwrap_err();
        assert_eq!(error.column, Some(3));
    }
}
