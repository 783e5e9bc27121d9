//! A character alphabet: one class a character of the training transcripts, in the order of their code
//! points. Saved as text, one symbol a line in the order of the classes.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::error::TokensError;
use super::unknown::UnknownCharacters;

/// First line of the file; its number grows when the meaning changes.
pub(super) const HEADER: &str = "asr-tokens 1";

/// A character alphabet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Characters {
    symbols: Vec<char>,
    classes: HashMap<char, u32>,
}

impl Characters {
    /// The characters of `transcripts`, in the order of their code points.
    ///
    /// # Errors
    /// When there are none.
    pub(super) fn from_transcripts<'a>(
        transcripts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Characters, TokensError> {
        // One by one: collecting would hold every character of every transcript for a moment.
        let mut symbols = BTreeSet::new();
        transcripts.into_iter().for_each(|text| symbols.extend(text.chars()));
        if symbols.is_empty() {
            return Err(TokensError::Empty);
        }
        Ok(Characters::from_symbols(symbols.into_iter().collect()))
    }

    fn from_symbols(symbols: Vec<char>) -> Characters {
        let classes =
            symbols.iter().enumerate().map(|(class, symbol)| (*symbol, class as u32)).collect();
        Characters { symbols, classes }
    }

    /// The characters, in the order of their classes.
    pub(super) fn symbols(&self) -> &[char] {
        &self.symbols
    }

    /// The classes of the characters that have one, and the others with their counts.
    pub(super) fn encode(&self, text: &str) -> (Vec<u32>, UnknownCharacters) {
        let mut unknown = UnknownCharacters::default();
        let mut labels = Vec::with_capacity(text.len());
        for symbol in text.chars() {
            match self.classes.get(&symbol) {
                Some(class) => labels.push(*class),
                None => unknown.add(symbol),
            }
        }
        (labels, unknown)
    }

    /// The text that `labels` spell. Blanks and classes beyond the alphabet spell nothing.
    pub(super) fn decode(&self, labels: &[u32]) -> String {
        labels.iter().filter_map(|label| self.symbols.get(*label as usize)).collect()
    }

    /// The content of a tokens file.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for symbol in &self.symbols {
            match symbol {
                ' ' => text.push_str("<space>"),
                c if c.is_whitespace() || c.is_control() => {
                    text.push_str(&format!("<U+{:04X}>", u32::from(*c)))
                }
                c => text.push(*c),
            }
            text.push('\n');
        }
        text
    }

    /// Reads what follows the head of a tokens file; `path` is for messages.
    ///
    /// # Errors
    /// Names the line that is wrong.
    pub(super) fn parse(body: &str, path: &Path) -> Result<Characters, TokensError> {
        let fail = |line: usize, reason: String| {
            Err(TokensError::Line { path: path.into(), line, reason })
        };
        let mut symbols: Vec<char> = Vec::new();
        for (at, line) in body.lines().enumerate().map(|(at, line)| (at + 1, line)) {
            let Some(symbol) = parse_symbol(line) else {
                return fail(
                    at + 1,
                    format!("expected one character, <space> or <U+hex>, and found {line:?}"),
                );
            };
            if let Some(first) = symbols.iter().position(|known| *known == symbol) {
                return fail(at + 1, format!("{symbol:?} is also on line {}", first + 2));
            }
            symbols.push(symbol);
        }
        if symbols.is_empty() {
            return fail(1, "the file holds no symbols".into());
        }
        Ok(Characters::from_symbols(symbols))
    }
}

fn parse_symbol(line: &str) -> Option<char> {
    let mut chars = line.chars();
    match (chars.next(), chars.next()) {
        (Some(symbol), None) if !symbol.is_whitespace() => Some(symbol),
        (Some('<'), Some(_)) if line == "<space>" => Some(' '),
        (Some('<'), Some(_)) => {
            let hex = line.strip_prefix("<U+")?.strip_suffix('>')?;
            char::from_u32(u32::from_str_radix(hex, 16).ok()?)
        }
        _ => None,
    }
}
