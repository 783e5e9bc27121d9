//! How a vocabulary fits transcripts: how many labels it takes, what it cannot spell, and what it reads
//! otherwise than it was written. Told before training, since all three cost words later.

use super::Tokens;
use super::unknown::UnknownCharacters;
use crate::wording::{counted, plural};

/// Counts over transcripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Transcripts looked at.
    pub transcripts: usize,
    /// Their words.
    pub words: usize,
    /// Their labels, unknown characters left out.
    pub labels: usize,
    /// Characters without a class.
    pub unknown: UnknownCharacters,
    /// Transcripts with some.
    pub with_unknown: usize,
    /// How often each class occurs; classes beyond the last that occurs are missing.
    pub class_counts: Vec<usize>,
    /// Transcripts whose words the tokenizer's own normalisation changes.
    pub altered: usize,
    /// The first of them, as written and as it is read.
    pub first_altered: Option<(String, String)>,
}

impl Coverage {
    /// Adds a transcript; tells what of it is unknown.
    pub fn add(&mut self, tokens: &Tokens, text: &str) -> UnknownCharacters {
        let (labels, unknown) = tokens.encode_known(text);
        self.transcripts += 1;
        self.words += text.split_whitespace().count();
        self.labels += labels.len();
        for label in &labels {
            let class = *label as usize;
            if class >= self.class_counts.len() {
                self.class_counts.resize(class + 1, 0);
            }
            self.class_counts[class] += 1;
        }
        if unknown.is_empty() {
            let read = tokens.decode(&labels);
            if !read.split_whitespace().eq(text.split_whitespace()) {
                self.altered += 1;
                self.first_altered.get_or_insert_with(|| (text.to_owned(), read));
            }
        } else {
            self.with_unknown += 1;
            self.unknown.merge(&unknown);
        }
        unknown
    }

    /// The counts of all `texts`.
    pub fn of<'a>(tokens: &Tokens, texts: impl IntoIterator<Item = &'a str>) -> Coverage {
        let mut coverage = Coverage::default();
        for text in texts {
            coverage.add(tokens, text);
        }
        coverage
    }

    /// Labels a word; 0 without words.
    pub fn labels_per_word(&self) -> f64 {
        self.labels as f64 / self.words.max(1) as f64
    }

    /// Classes that could spell something and occur fewer than `times`.
    pub fn num_rare(&self, tokens: &Tokens, times: usize) -> usize {
        let count = |class: u32| self.class_counts.get(class as usize).copied().unwrap_or(0);
        let all = (0..tokens.blank()).filter(|class| tokens.spells(*class));
        all.filter(|class| count(*class) < times).count()
    }

    /// What is altered, as a sentence; `None` if nothing is.
    pub fn altered_remark(&self) -> Option<String> {
        let (written, read) = self.first_altered.as_ref()?;
        Some(format!(
            "{} {} changed by the tokenizer's own normalisation and scored as written: {written:?} is learnt as {read:?}",
            counted(self.altered, "transcript"),
            plural(self.altered, "is", "are")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcripts_words_labels_and_unknown_characters_are_counted() {
        let tokens = Tokens::from_transcripts(["ab c"]).unwrap();
        let coverage = Coverage::of(&tokens, ["ab", "a  b", "zza c", ""]);
        assert_eq!((coverage.transcripts, coverage.words, coverage.labels), (4, 5, 9));
        assert_eq!((coverage.with_unknown, coverage.unknown.counts[&'z']), (1, 2));
        assert_eq!((coverage.altered, coverage.altered_remark()), (0, None));
        assert_eq!(coverage.labels_per_word(), 1.8);
        assert_eq!(coverage.class_counts, [3, 3, 2, 1]);
        assert_eq!([1, 2, 3, 4].map(|times| coverage.num_rare(&tokens, times)), [0, 1, 2, 4]);
    }

    #[test]
    fn one_altered_transcript_is_told_as_one() {
        let altered = |altered| Coverage {
            altered,
            first_altered: Some(("A".to_owned(), "a".to_owned())),
            ..Coverage::default()
        };
        for (count, words) in [(1, "1 transcript is changed"), (2, "2 transcripts are changed")] {
            let remark = altered(count).altered_remark().unwrap();
            assert!(
                remark.starts_with(words) && remark.ends_with("\"A\" is learnt as \"a\""),
                "{remark}"
            );
        }
    }
}
