//! Word and character error rates: counts of edits, summed over a corpus and divided once.
//!
//! Text is compared as it is given: no case folding, no punctuation rule, no hidden normalisation.
//! Words are what white space separates. The characters of CER are Unicode scalar values with one
//! space between words, and those spaces count, as in jiwer. Refuses to call a rate over nothing
//! zero. Line format: Kaldi's `compute-wer`.

pub mod align;

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

pub use align::{Alignment, Move, align, edits};

/// Edits that turn a reference into a hypothesis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edits {
    /// Reference symbols found in the hypothesis.
    pub hits: usize,
    /// Reference symbols replaced by another.
    pub subs: usize,
    /// Reference symbols missing from the hypothesis.
    pub dels: usize,
    /// Hypothesis symbols that no reference symbol stands behind.
    pub inss: usize,
}

impl Edits {
    /// Symbols in the reference.
    pub fn reference_len(self) -> usize {
        self.hits + self.subs + self.dels
    }

    /// Symbols in the hypothesis.
    pub fn hypothesis_len(self) -> usize {
        self.hits + self.subs + self.inss
    }

    /// Substitutions, deletions and insertions together: the Levenshtein distance.
    pub fn errors(self) -> usize {
        self.subs + self.dels + self.inss
    }

    /// Errors per reference symbol, which may exceed 1. `None` when the references hold no symbols:
    /// a rate over nothing is not zero.
    pub fn rate(self) -> Option<f64> {
        let len = self.reference_len();
        (len > 0).then(|| self.errors() as f64 / len as f64)
    }

    /// Kaldi's line, `%WER 10.61 [ 82 / 773, 4 ins, 10 del, 68 sub ]`. Without a reference the
    /// percentage is `nan`, which is still a number to whatever parses the line.
    pub fn kaldi_line(self) -> String {
        let percent =
            self.rate().map_or_else(|| "nan".to_owned(), |rate| format!("{:.2}", 100.0 * rate));
        format!(
            "%WER {percent} [ {} / {}, {} ins, {} del, {} sub ]",
            self.errors(),
            self.reference_len(),
            self.inss,
            self.dels,
            self.subs
        )
    }
}

impl Add for Edits {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            subs: self.subs + other.subs,
            dels: self.dels + other.dels,
            inss: self.inss + other.inss,
        }
    }
}

impl AddAssign for Edits {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Word edits of one utterance.
pub fn word_edits(reference: &str, hypothesis: &str) -> Edits {
    let reference: Vec<&str> = reference.split_whitespace().collect();
    let hypothesis: Vec<&str> = hypothesis.split_whitespace().collect();
    edits(&reference, &hypothesis)
}

/// Character edits of one utterance, a single space between words counting as a character.
pub fn character_edits(reference: &str, hypothesis: &str) -> Edits {
    edits(&characters(reference), &characters(hypothesis))
}

fn characters(text: &str) -> Vec<char> {
    let mut characters = Vec::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !characters.is_empty() {
            characters.push(' ');
        }
        characters.extend(word.chars());
    }
    characters
}

/// Counts over a corpus. Rates come from the sums, never from a mean of rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusScore {
    /// Word edits, for WER.
    pub words: Edits,
    /// Character edits, for CER.
    pub characters: Edits,
    /// Utterances scored.
    pub utterances: usize,
    /// Utterances with at least one word error.
    pub utterances_with_errors: usize,
}

impl CorpusScore {
    /// Scores one utterance, adds it, and returns its word edits.
    pub fn add(&mut self, reference: &str, hypothesis: &str) -> Edits {
        let words = word_edits(reference, hypothesis);
        self.words += words;
        self.characters += character_edits(reference, hypothesis);
        self.utterances += 1;
        self.utterances_with_errors += usize::from(words.errors() > 0);
        words
    }

    /// Adds the counts of another part of the corpus.
    pub fn merge(&mut self, other: &Self) {
        self.words += other.words;
        self.characters += other.characters;
        self.utterances += other.utterances;
        self.utterances_with_errors += other.utterances_with_errors;
    }

    /// Word error rate as a fraction; `None` when the references hold no words.
    pub fn wer(&self) -> Option<f64> {
        self.words.rate()
    }

    /// Character error rate as a fraction; `None` when the references hold no characters.
    pub fn cer(&self) -> Option<f64> {
        self.characters.rate()
    }

    /// Share of utterances with an error; `None` when there are none.
    pub fn sentence_error_rate(&self) -> Option<f64> {
        (self.utterances > 0).then(|| self.utterances_with_errors as f64 / self.utterances as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kaldi_line_is_exact() {
        let edits = Edits { hits: 695, subs: 68, dels: 10, inss: 4 };
        assert_eq!(edits.kaldi_line(), "%WER 10.61 [ 82 / 773, 4 ins, 10 del, 68 sub ]");
        let perfect = Edits { hits: 3, ..Edits::default() };
        assert_eq!(perfect.kaldi_line(), "%WER 0.00 [ 0 / 3, 0 ins, 0 del, 0 sub ]");
    }

    #[test]
    fn a_rate_over_no_reference_is_absent_and_its_words_are_insertions() {
        let edits = word_edits(" ", "three seven");
        assert_eq!(edits, Edits { inss: 2, ..Edits::default() });
        assert_eq!(edits.rate(), None);
        assert_eq!(edits.kaldi_line(), "%WER nan [ 2 / 0, 2 ins, 0 del, 0 sub ]");
        assert_eq!(CorpusScore::default().sentence_error_rate(), None);
    }

    #[test]
    fn corpus_rates_divide_the_sums_once() {
        let mut score = CorpusScore::default();
        score.add("one", "two");
        score.add(
            "one two three four five six seven eight nine",
            "one two three four five six seven eight nine",
        );
        score.add("", "oh");
        // 2 errors over 10 reference words; a mean of the rates would say 50 % and worse.
        assert_eq!(score.wer(), Some(0.2));
        assert_eq!((score.utterances, score.utterances_with_errors), (3, 2));
    }

    #[test]
    fn merging_parts_equals_scoring_the_whole() {
        let pairs = [("a b", "a c"), ("x", ""), ("", "y z"), ("same", "same")];
        let mut whole = CorpusScore::default();
        let (mut left, mut right) = (CorpusScore::default(), CorpusScore::default());
        for (i, (reference, hypothesis)) in pairs.iter().enumerate() {
            whole.add(reference, hypothesis);
            if i % 2 == 0 { &mut left } else { &mut right }.add(reference, hypothesis);
        }
        left.merge(&right);
        assert_eq!(left, whole);
    }

    #[test]
    fn characters_count_one_space_between_words_and_none_around() {
        assert_eq!(character_edits("  ab \t c ", "ab c"), Edits { hits: 4, ..Edits::default() });
        // "a b" against "ab": the space is missing, 1 of 3 characters.
        assert_eq!(character_edits("a b", "ab").rate(), Some(1.0 / 3.0));
        // One scalar value, not two bytes.
        assert_eq!(character_edits("é", "e"), Edits { subs: 1, ..Edits::default() });
    }

    #[test]
    fn case_and_punctuation_are_errors_because_nothing_is_normalised() {
        assert_eq!(word_edits("Three, seven", "three seven").errors(), 1);
    }
}
