//! What a tokenizer's file has done to a text before it is spelt: normalisers, then splits, as Hugging
//! Face's pipelines and SentencePiece do them. Exactly that, and nothing else.

use unicode_normalization::UnicodeNormalization;

use super::charsmap::Charsmap;
use super::pieces::WORD_START;
use super::trie::Trie;

/// From a text to the parts that are spelt one by one.
#[derive(Clone, Debug)]
pub(super) enum Normalize {
    HuggingFace { normalizers: Vec<Normalizer>, splits: Vec<Split> },
    SentencePiece(SentencePiece),
}

/// A step over the whole text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Normalizer {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
    Strip {
        left: bool,
        right: bool,
    },
    Prepend(String),
    Replace {
        from: String,
        to: String,
    },
    /// Two spaces and more.
    ReplaceSpaces {
        to: String,
    },
    /// Spaces at both ends, and no other whitespace.
    TrimSpaces,
    ReplaceStart {
        from: String,
        to: String,
    },
    Precompiled(Box<Charsmap>),
}

/// A step that parts the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Split {
    Whitespace,
    Characters,
    Metaspace { mark: char, prepends: bool, splits: bool },
}

/// SentencePiece's own.
#[derive(Clone, Debug, Default)]
pub(super) struct SentencePiece {
    pub(super) charsmap: Option<Charsmap>,
    pub(super) user_defined: Trie,
    pub(super) adds_prefix: bool,
    pub(super) removes_spaces: bool,
    pub(super) marks_spaces: bool,
    pub(super) marks_ends: bool,
}

impl Normalize {
    /// The parts of `text`; none is empty.
    pub(super) fn parts(&self, text: &str) -> Vec<String> {
        let mut parts = match self {
            Normalize::SentencePiece(steps) => vec![steps.normalize(text)],
            Normalize::HuggingFace { normalizers, splits } => {
                let whole = normalizers.iter().fold(text.to_owned(), |text, step| step.apply(text));
                splits.iter().fold(vec![whole], |parts, split| split.apply(parts))
            }
        };
        parts.retain(|part| !part.is_empty());
        parts
    }
}

impl Normalizer {
    fn apply(&self, text: String) -> String {
        match self {
            Normalizer::Nfc => text.nfc().collect(),
            Normalizer::Nfd => text.nfd().collect(),
            Normalizer::Nfkc => text.nfkc().collect(),
            Normalizer::Nfkd => text.nfkd().collect(),
            // Character by character: a final sigma is like any other.
            Normalizer::Lowercase => text.chars().flat_map(char::to_lowercase).collect(),
            Normalizer::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { &text };
                if *right { text.trim_end() } else { text }.to_owned()
            }
            Normalizer::Prepend(_) if text.is_empty() => text,
            Normalizer::Prepend(prefix) => prefix.clone() + &text,
            Normalizer::Replace { from, to } => text.replace(from, to),
            Normalizer::ReplaceSpaces { to } => replace_spaces(&text, to),
            Normalizer::TrimSpaces => text.trim_matches(' ').to_owned(),
            Normalizer::ReplaceStart { from, to } => match text.strip_prefix(from.as_str()) {
                Some(rest) => format!("{to}{rest}"),
                None => text,
            },
            Normalizer::Precompiled(charsmap) => charsmap.replace_graphemes(&text),
        }
    }
}

fn replace_spaces(text: &str, to: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("  ") {
        replaced.push_str(&rest[..at]);
        replaced.push_str(to);
        rest = rest[at..].trim_start_matches(' ');
    }
    replaced + rest
}

impl Split {
    fn apply(self, parts: Vec<String>) -> Vec<String> {
        match self {
            Split::Whitespace => {
                parts.iter().flat_map(|part| part.split_whitespace()).map(str::to_owned).collect()
            }
            Split::Characters => {
                parts.iter().flat_map(|part| part.chars()).map(String::from).collect()
            }
            Split::Metaspace { mark, prepends, splits } => {
                let marked = parts.into_iter().filter(|part| !part.is_empty()).map(|part| {
                    let part = part.replace(' ', mark.encode_utf8(&mut [0; 4]));
                    if prepends && !part.starts_with(mark) { format!("{mark}{part}") } else { part }
                });
                if splits {
                    marked.flat_map(|part| before(&part, mark)).collect()
                } else {
                    marked.collect()
                }
            }
        }
    }
}

/// Cuts before each mark.
fn before(text: &str, mark: char) -> Vec<String> {
    let mut starts: Vec<usize> = text.match_indices(mark).map(|(at, _)| at).collect();
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| text[*start..end].to_owned()).collect()
}

impl SentencePiece {
    fn normalize(&self, text: &str) -> String {
        let mut rest = text;
        if self.removes_spaces {
            while let (len, " ") = self.prefix(rest) {
                rest = &rest[len..];
            }
        }
        if rest.is_empty() {
            return String::new();
        }
        let space = if self.marks_spaces { WORD_START } else { ' ' };
        let mut normal = String::with_capacity(text.len() + 3);
        if self.adds_prefix && !self.marks_ends {
            normal.push(space);
        }
        let mut is_after_space = self.removes_spaces;
        while !rest.is_empty() {
            let (len, with) = self.prefix(rest);
            let with = if is_after_space { with.trim_start_matches(' ') } else { with };
            if let Some(last) = with.chars().last() {
                normal
                    .extend(with.chars().map(|symbol| if symbol == ' ' { space } else { symbol }));
                is_after_space = last == ' ';
            }
            rest = &rest[len..];
            is_after_space &= self.removes_spaces;
        }
        if self.removes_spaces {
            normal.truncate(normal.trim_end_matches(space).len());
        }
        if self.adds_prefix && self.marks_ends {
            normal.push(space);
        }
        normal
    }

    /// The length of what is replaced at the start of `text`, and its replacement; both are empty for an
    /// empty text.
    fn prefix<'a>(&'a self, text: &'a str) -> (usize, &'a str) {
        if let Some((len, _)) = self.user_defined.prefixes(text.as_bytes()).last() {
            return (len, &text[..len]);
        }
        let replaced = self.charsmap.as_ref().and_then(|charsmap| charsmap.longest(text));
        replaced.unwrap_or_else(|| {
            let len = text.chars().next().map_or(0, char::len_utf8);
            (len, &text[..len])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(normalizers: Vec<Normalizer>, splits: Vec<Split>, text: &str) -> Vec<String> {
        Normalize::HuggingFace { normalizers, splits }.parts(text)
    }

    #[test]
    fn metaspace_marks_and_cuts_as_its_settings_say() {
        let metaspace = |prepends, splits| Split::Metaspace { mark: '_', prepends, splits };
        for (split, text, want) in [
            (metaspace(true, true), "a  b c", vec!["_a", "_", "_b", "_c"]),
            (metaspace(true, false), "a b", vec!["_a_b"]),
            (metaspace(false, true), "a b", vec!["a", "_b"]),
            (metaspace(true, true), " a", vec!["_a"]),
            (metaspace(true, true), "", vec![]),
        ] {
            assert_eq!(parts(vec![], vec![split], text), want, "{split:?} {text:?}");
        }
        let words = vec![Split::Whitespace, metaspace(true, true)];
        assert_eq!(parts(vec![], words, " a\t\u{a0}bc "), ["_a", "_bc"]);
        assert_eq!(parts(vec![], vec![Split::Characters], "a \n"), ["a", " ", "\n"]);
    }

    #[test]
    fn each_normaliser_does_what_its_name_says() {
        let normal = |step: Normalizer, text: &str| step.apply(text.to_owned());
        assert_eq!(normal(Normalizer::Nfc, "e\u{301}"), "\u{e9}");
        assert_eq!(normal(Normalizer::Nfd, "\u{e9}"), "e\u{301}");
        assert_eq!(normal(Normalizer::Nfkc, "\u{fb01}"), "fi");
        assert_eq!(normal(Normalizer::Nfkd, "\u{fb01}\u{e9}"), "fie\u{301}");
        assert_eq!(normal(Normalizer::Lowercase, "A\u{3a3}"), "a\u{3c3}");
        assert_eq!(normal(Normalizer::Strip { left: false, right: true }, " a "), " a");
        assert_eq!(normal(Normalizer::Prepend("_".into()), "a"), "_a");
        assert_eq!(normal(Normalizer::Prepend("_".into()), ""), "");
        assert_eq!(normal(Normalizer::TrimSpaces, "  a\t "), "a\t");
        let start = Normalizer::ReplaceStart { from: "_".into(), to: "__".into() };
        assert_eq!(normal(start.clone(), "_a_"), "__a_");
        assert_eq!(normal(start, "a_"), "a_");
        assert_eq!(normal(Normalizer::ReplaceSpaces { to: "_".into() }, "a b  c   d "), "a b_c_d ");
    }

    #[test]
    fn sentencepiece_keeps_or_removes_spaces_and_marks_either_end() {
        let usual = SentencePiece {
            adds_prefix: true,
            removes_spaces: true,
            marks_spaces: true,
            ..SentencePiece::default()
        };
        assert_eq!(usual.normalize("  a  b "), "\u{2581}a\u{2581}b");
        assert_eq!(usual.normalize("   "), "");
        let kept = SentencePiece { removes_spaces: false, ..usual.clone() };
        assert_eq!(kept.normalize(" a "), "\u{2581}\u{2581}a\u{2581}");
        let ends = SentencePiece { marks_ends: true, ..usual };
        assert_eq!(ends.normalize("a b"), "a\u{2581}b\u{2581}");
    }
}
