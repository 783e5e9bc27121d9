//! Quotes of a CSV that are not closed where their field ends. The parser takes whatever follows a closing
//! quote for a part of the field, and a quote that is never closed for a field up to the end of the file:
//! rows would go into a transcript in silence. RFC 4180, section 2.

use std::cell::RefCell;
use std::io::{self, Read};

/// Where in a field the bytes are.
#[derive(Clone, Copy, Default, PartialEq)]
enum Quoting {
    #[default]
    Start,
    Plain,
    Quoted,
    /// Behind a quote in a quoted field: its end, or the first of two.
    Ended,
}

/// Follows the quotes of a table byte by byte.
#[derive(Default)]
pub(super) struct Quotes {
    state: Quoting,
    line: usize,
    opened: usize,
    /// Lines on which a quote opens that is closed wrongly or not at all.
    broken: Vec<usize>,
}

impl Quotes {
    fn pass(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (Quoting::Quoted, b'"') => Quoting::Ended,
            (Quoting::Start, b'"') => {
                self.opened = self.line;
                Quoting::Quoted
            }
            (Quoting::Quoted, _) | (Quoting::Ended, b'"') => Quoting::Quoted,
            (_, b',' | b'\n' | b'\r') => Quoting::Start,
            (Quoting::Ended, _) => {
                if self.broken.len() < MAX_BROKEN {
                    self.broken.push(self.opened + 1);
                }
                Quoting::Plain
            }
            (_, _) => Quoting::Plain,
        };
        self.line += usize::from(byte == b'\n');
    }

    /// The lines on which a quote opens that is closed wrongly or not at all, counted from 1.
    pub fn finish(mut self) -> Vec<usize> {
        if self.state == Quoting::Quoted {
            self.broken.push(self.opened + 1);
        }
        self.broken
    }
}

/// Broken quotes kept: each may be the start of a wrong reading of all that follows.
const MAX_BROKEN: usize = 5;

/// Shows the bytes to [`Quotes`] as they are read.
pub(super) struct Watched<'a, R> {
    pub input: R,
    pub quotes: Option<&'a RefCell<Quotes>>,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buffer)?;
        if let Some(quotes) = self.quotes {
            let mut quotes = quotes.borrow_mut();
            buffer[..len].iter().for_each(|byte| quotes.pass(*byte));
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Vec<usize> {
        let quotes = RefCell::default();
        let mut watched = Watched { input: text.as_bytes(), quotes: Some(&quotes) };
        io::copy(&mut watched, &mut io::sink()).unwrap();
        quotes.into_inner().finish()
    }

    #[test]
    fn quotes_that_close_their_fields_are_sound() {
        for text in
            ["", "a,b\n", "\"a\",\"b\"\r\n", "\"a \"\"b\"\"\",\"\"\n", "\"a\nb\",c", "5\" pipe,x\n"]
        {
            assert_eq!(broken(text), [0; 0], "{text}");
        }
    }

    #[test]
    fn a_quote_that_is_closed_wrongly_or_not_at_all_is_told_by_the_line_it_opens_on() {
        assert_eq!(broken("a,b\n\"he said \"no\" twice\",c\n"), [2]);
        assert_eq!(broken("a\nb,\"c\nd\ne"), [2]);
        assert_eq!(broken(&"\"a\"x\n".repeat(9)).len(), MAX_BROKEN);
    }
}
