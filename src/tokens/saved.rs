//! Vocabularies as files: the project's own text, which every checkpoint holds, and what other programs
//! wrote, told by its content.
//!
//! The text starts with `asr-tokens 1` before a character alphabet, and with `asr-tokens 2 KIND` before
//! the content of a `tokenizer.json`, or of a SentencePiece model in base64.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::characters::{self, Characters};
use super::error::TokensError;
use super::subwords::Source;
use super::{Tokens, Vocabulary, hugging_face, sentencepiece};

const HUGGING_FACE: &str = "asr-tokens 2 tokenizer.json";
const SENTENCEPIECE: &str = "asr-tokens 2 sentencepiece";

/// Characters of base64 on a line.
const LINE: usize = 76;

impl Tokens {
    /// The content of a tokens file.
    pub fn to_text(&self) -> String {
        let subwords = match &self.0 {
            Vocabulary::Characters(characters) => return characters.to_text(),
            Vocabulary::Subwords(subwords) => subwords,
        };
        match &subwords.source {
            Source::HuggingFace(text) => format!("{HUGGING_FACE}\n{text}"),
            Source::SentencePiece(bytes) => {
                let mut text = format!("{SENTENCEPIECE}\n");
                // Three bytes are four characters.
                for line in bytes.chunks(LINE / 4 * 3) {
                    STANDARD.encode_string(line, &mut text);
                    text.push('\n');
                }
                text
            }
        }
    }

    /// Reads a tokens file, a `tokenizer.json` or a SentencePiece `.model`.
    ///
    /// # Errors
    /// Names the file, and the line or the part that is wrong or not supported.
    pub fn load(path: &Path) -> Result<Tokens, TokensError> {
        let bytes = std::fs::read(path)
            .map_err(|source| TokensError::Read { path: path.into(), source })?;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let start = text.trim_start_matches('\u{feff}').trim_start();
            if start.starts_with("asr-tokens") {
                return Tokens::parse(text, path);
            }
            if start.starts_with('{') {
                return Ok(hugging_face::read(start, path)?.into());
            }
        }
        Ok(sentencepiece::read(&bytes, path)?.into())
    }

    /// Reads the content of a tokens file; `path` is for messages.
    ///
    /// # Errors
    /// Names the line that is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Tokens, TokensError> {
        let (header, body) = text.split_once('\n').unwrap_or((text, ""));
        let fail = |line, reason| Err(TokensError::Line { path: path.into(), line, reason });
        match header.trim_end() {
            characters::HEADER => Ok(Characters::parse(body, path)?.into()),
            HUGGING_FACE => Ok(hugging_face::read(body, path)?.into()),
            SENTENCEPIECE => {
                let encoded: String = body.split_whitespace().collect();
                match STANDARD.decode(encoded) {
                    Ok(bytes) => Ok(sentencepiece::read(&bytes, path)?.into()),
                    Err(error) => fail(2, format!("the model's base64 is broken: {error}")),
                }
            }
            header => fail(
                1,
                format!(
                    "expected {:?}, {HUGGING_FACE:?} or {SENTENCEPIECE:?}, the head of a tokens file, and found {header:?}",
                    characters::HEADER
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TokenKind;
    use super::*;

    fn characters() -> Tokens {
        Tokens::from_transcripts(["three seven", "oh nine's", "<U+\u{e9}>\u{a0}\t#"]).unwrap()
    }

    #[test]
    fn the_file_round_trips_and_does_not_depend_on_the_order_of_transcripts() {
        let pieces = Tokens::train(TokenKind::Bpe, 12, ["aa ab abc cab cabc"]).unwrap();
        for tokens in [characters(), pieces] {
            let text = tokens.to_text();
            assert_eq!(Tokens::parse(&text, Path::new("t")).unwrap(), tokens);
            let crlf = Tokens::parse(&text.replace('\n', "\r\n"), Path::new("t")).unwrap();
            assert_eq!(crlf.symbols(), tokens.symbols());
        }
        let a = Tokens::from_transcripts(["ab", "cd"]).unwrap();
        assert_eq!(a, Tokens::from_transcripts(["dc", "ba"]).unwrap());
        assert!(matches!(Tokens::from_transcripts(["", ""]), Err(TokensError::Empty)));
    }

    #[test]
    fn an_alphabet_of_the_first_release_is_read_as_it_was_meant() {
        let text = "asr-tokens 1\n<space>\n'\na\n<U+00A0>\n<\n\u{e9}\n";
        let tokens = Tokens::parse(text, Path::new("t")).unwrap();
        assert_eq!(tokens.symbols(), [" ", "'", "a", "\u{a0}", "<", "\u{e9}"]);
        assert_eq!((tokens.blank(), tokens.num_classes()), (6, 7));
        assert_eq!(tokens.encode("a \u{e9}").unwrap(), [2, 0, 5]);
        assert_eq!(tokens.to_text(), text);
    }

    #[test]
    fn a_broken_file_names_its_line() {
        for (text, want) in [
            ("", "tokens.txt:1:"),
            ("asr-tokens 9\na\n", "tokens.txt:1:"),
            ("asr-tokens 1\n", "tokens.txt:1:"),
            ("asr-tokens 1\na\nbc\n", "tokens.txt:3:"),
            ("asr-tokens 1\na\n\nb\n", "tokens.txt:3:"),
            ("asr-tokens 1\na\nb\na\n", "line 2"),
            ("asr-tokens 1\n<U+D800>\n", "tokens.txt:2:"),
            ("asr-tokens 2 tokenizer.json\n{", "tokens.txt: no whole tokenizer.json"),
            ("asr-tokens 2 sentencepiece\n?", "tokens.txt:2:"),
            ("asr-tokens 2 sentencepiece\nAAAA", "tokens.txt: neither text"),
        ] {
            let error = Tokens::parse(text, Path::new("tokens.txt")).unwrap_err().to_string();
            assert!(error.contains(want), "{text:?}: {error}");
        }
        assert!(matches!(Tokens::load(Path::new("/nonexistent/t")), Err(TokensError::Read { .. })));
    }
}
