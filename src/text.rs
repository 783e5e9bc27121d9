//! Named text normalisers, applied alike to references and hypotheses and recorded with every result:
//! a rate over silently changed text is not comparable to anything.

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// What is done to a transcript before it is spelt or scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalizer {
    /// The text as it stands.
    #[default]
    None,
    /// NFC, lower case, no punctuation but the apostrophe, single blanks.
    Basic,
}

impl Normalizer {
    /// The normalised text.
    pub fn normalize(self, text: &str) -> String {
        match self {
            Normalizer::None => text.to_owned(),
            Normalizer::Basic => basic(text),
        }
    }

    /// The name used in configs and results.
    pub fn name(self) -> &'static str {
        match self {
            Normalizer::None => "none",
            Normalizer::Basic => "basic",
        }
    }
}

/// Dashes and slashes part words; other punctuation vanishes. Combining marks stay: scripts of India
/// lose vowels without them.
fn basic(text: &str) -> String {
    let lower = text.nfc().flat_map(char::to_lowercase);
    let kept = lower.filter_map(|c| match c {
        '\u{2018}' | '\u{2019}' | '\u{02bc}' | '\'' => Some('\''),
        '-' | '/' | '\u{2010}'..='\u{2015}' => Some(' '),
        c if c.is_whitespace() => Some(' '),
        c if c.is_alphanumeric() || is_combining_mark(c) => Some(c),
        _ => None,
    });
    // Lower-casing can decompose (the Turkish capital dotted I), so compose again.
    let kept: String = kept.nfc().collect();
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_is_what_its_table_says() {
        for (text, want) in [
            ("Hello,  World!", "hello world"),
            (" it\u{2019}s 'fine' ", "it's 'fine'"),
            ("twenty-one and/or", "twenty one and or"),
            ("\tA\u{00a0}B\n", "a b"),
            ("e\u{301}t\u{e9}", "\u{e9}t\u{e9}"),
            (
                "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
                "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
            ),
            ("...", ""),
            ("", ""),
        ] {
            assert_eq!(Normalizer::Basic.normalize(text), want);
            assert_eq!(Normalizer::None.normalize(text), text);
        }
    }

    #[test]
    fn normalising_twice_changes_nothing() {
        for text in
            ["\u{130}stanbul \u{1e9e} \u{fb01}n", "A--B 3.5\u{20ac}", "\u{1c4}\u{3a3}\u{301}"]
        {
            let once = Normalizer::Basic.normalize(text);
            assert_eq!(Normalizer::Basic.normalize(&once), once);
        }
    }

    #[test]
    fn the_config_spelling_is_the_name() {
        for normalizer in [Normalizer::None, Normalizer::Basic] {
            assert_eq!(serde_json::to_value(normalizer).unwrap(), normalizer.name());
        }
    }
}
