//! What a transcript holds and a vocabulary cannot spell, by character and count. It is told before
//! training and beside every score; no class ever stands for it.

use std::collections::BTreeMap;

/// Characters of one text that are not in the alphabet, each with its count.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("characters outside the alphabet: {}", self.list())]
pub struct UnknownCharacters {
    /// How often each occurs.
    pub counts: BTreeMap<char, usize>,
}

impl UnknownCharacters {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds one character.
    pub fn add(&mut self, symbol: char) {
        *self.counts.entry(symbol).or_default() += 1;
    }

    /// Adds the counts of another text.
    pub fn merge(&mut self, other: &UnknownCharacters) {
        for (symbol, count) in &other.counts {
            *self.counts.entry(*symbol).or_default() += count;
        }
    }

    /// `'q' (U+0071) 3 times, ...`, the most frequent first, at most ten.
    pub fn list(&self) -> String {
        let mut counts: Vec<_> = self.counts.iter().collect();
        counts.sort_by_key(|(symbol, count)| (std::cmp::Reverse(**count), **symbol));
        let shown: Vec<String> = counts
            .iter()
            .take(10)
            .map(|(symbol, count)| format!("{symbol:?} (U+{:04X}) {count}x", u32::from(**symbol)))
            .collect();
        let more = counts.len().saturating_sub(10);
        if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
    }
}
