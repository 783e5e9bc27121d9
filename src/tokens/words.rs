//! What subword trainers see of the transcripts: their words, marked at the start, each with its count.

use std::collections::{BTreeMap, BTreeSet};

use super::error::TokensError;
use super::pieces::WORD_START;

/// Distinct words with their counts, in the order of their characters, and all characters.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) counts: Vec<(String, u64)>,
    pub(super) alphabet: Vec<char>,
}

impl Words {
    /// Counts the words of `transcripts`.
    ///
    /// # Errors
    /// When there are none, when one holds the mark itself, or when `size` pieces are too few for the
    /// characters.
    pub(super) fn count<'a>(
        transcripts: impl IntoIterator<Item = &'a str>,
        size: usize,
    ) -> Result<Words, TokensError> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut with_mark = 0;
        for transcript in transcripts {
            with_mark += usize::from(transcript.contains(WORD_START));
            for word in transcript.split_whitespace() {
                *counts.entry(format!("{WORD_START}{word}")).or_default() += 1;
            }
        }
        if counts.is_empty() {
            return Err(TokensError::Empty);
        }
        if with_mark > 0 {
            return Err(TokensError::Mark { count: with_mark });
        }
        let alphabet: BTreeSet<char> = counts.keys().flat_map(|word| word.chars()).collect();
        let alphabet: Vec<char> = alphabet.into_iter().collect();
        if alphabet.len() > size {
            return Err(TokensError::TooSmall { size, characters: alphabet.len() });
        }
        Ok(Words { counts: counts.into_iter().collect(), alphabet })
    }
}
