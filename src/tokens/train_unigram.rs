//! A unigram language model of pieces learnt from words (Kudo 2018): frequent substrings to begin with,
//! then expectation-maximisation and pruning in turns, until as many are left as are wanted. All
//! characters stay, so that every word can be spelt. Steps and constants are SentencePiece's.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::error::TokensError;
use super::lattice::Lattice;
use super::words::Words;

/// Substrings to begin with, at most.
const SEEDS: usize = 1_000_000;

/// Characters in a piece, at most, the mark included.
const MAX_CHARACTERS: usize = 16;

/// Pieces expected less often than this are dropped.
const MIN_EXPECTED: f64 = 0.5;

/// Share of the pieces that a pruning keeps.
const KEPT: f64 = 0.75;

/// Pruning ends this far above the size wanted: the last choice is by score.
const SLACK: f64 = 1.1;

/// A piece with its log probability.
#[derive(Clone, Debug, PartialEq)]
struct Scored {
    text: String,
    score: f64,
}

impl Scored {
    fn is_character(&self) -> bool {
        self.text.chars().nth(1).is_none()
    }
}

/// The model of a `tokenizer.json` with exactly `size` pieces, the likeliest first.
///
/// # Errors
/// When the words give fewer.
pub(super) fn train(words: &Words, size: usize) -> Result<Value, TokensError> {
    let mut pieces = maximised(maximised(seeds(words), words, 0), words, 0);
    if pieces.len() < size {
        return Err(TokensError::TooLarge { size, possible: pieces.len() });
    }
    let enough = ((size as f64 * SLACK) as usize).max(size);
    while pieces.len() > enough {
        pieces = pruned(pieces, words, enough);
        for _ in 0..2 {
            pieces = maximised(pieces, words, size);
        }
    }
    let (characters, mut longer): (Vec<Scored>, Vec<Scored>) =
        pieces.into_iter().partition(Scored::is_character);
    longer.sort_by(likeliest_first);
    longer.truncate(size - characters.len());
    longer.extend(characters);
    longer.sort_by(likeliest_first);
    let vocab: Vec<(String, f64)> =
        longer.into_iter().map(|piece| (piece.text, piece.score)).collect();
    Ok(json!({"type": "Unigram", "unk_id": null, "vocab": vocab, "byte_fallback": false}))
}

fn likeliest_first(a: &Scored, b: &Scored) -> std::cmp::Ordering {
    b.score.total_cmp(&a.score).then_with(|| a.text.cmp(&b.text))
}

/// All characters, and the substrings that occur twice and more and cover most.
fn seeds(words: &Words) -> Vec<Scored> {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for (word, count) in &words.counts {
        let starts: Vec<usize> =
            word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
        for (first, start) in starts.iter().enumerate() {
            for end in starts[first..].iter().skip(1).take(MAX_CHARACTERS) {
                *counts.entry(&word[*start..*end]).or_default() += count;
            }
        }
    }
    let mut weights: Vec<(bool, u64, &str)> = counts
        .into_iter()
        .map(|(text, count)| (text, text.chars().count() as u64, count))
        .filter(|(_, len, count)| *len == 1 || *count > 1)
        .map(|(text, len, count)| (len == 1, count * len, text))
        .collect();
    weights.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then_with(|| a.2.cmp(b.2)));
    weights.truncate(SEEDS.max(words.alphabet.len()));
    let total: u64 = weights.iter().map(|(_, weight, _)| weight).sum();
    let scored = |(_, weight, text): (bool, u64, &str)| Scored {
        text: text.to_owned(),
        score: (weight as f64 / total as f64).ln(),
    };
    weights.into_iter().map(scored).collect()
}

fn lattice(pieces: &[Scored]) -> Lattice {
    Lattice::new(pieces.iter().map(|piece| (piece.text.as_str(), piece.score)))
}

/// One round of expectation and maximisation, with the digamma function of variational Bayes, which
/// makes rare pieces rarer still; no fewer than `at_least` are left.
fn maximised(pieces: Vec<Scored>, words: &Words, at_least: usize) -> Vec<Scored> {
    let lattice = lattice(&pieces);
    let mut expected = vec![0.0; pieces.len()];
    for (word, count) in &words.counts {
        lattice.expect(word, *count as f64, &mut expected);
    }
    let mut sorted = expected.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let spared = at_least.checked_sub(1).and_then(|last| sorted.get(last)).copied();
    let threshold = spared.map_or(MIN_EXPECTED, |spared| spared.min(MIN_EXPECTED));
    let keep = |(piece, expected): (Scored, f64)| {
        let keeps = expected >= threshold || piece.is_character();
        keeps.then(|| (piece.text, expected.max(MIN_EXPECTED)))
    };
    let kept: Vec<(String, f64)> = pieces.into_iter().zip(expected).filter_map(keep).collect();
    let total = digamma(kept.iter().map(|(_, expected)| expected).sum());
    let scored =
        |(text, expected): (String, f64)| Scored { text, score: digamma(expected) - total };
    kept.into_iter().map(scored).collect()
}

/// Drops the pieces without which the words' likelihood suffers least.
fn pruned(pieces: Vec<Scored>, words: &Words, enough: usize) -> Vec<Scored> {
    let lattice = lattice(&pieces);
    let mut counts = vec![0.0; pieces.len()];
    for (word, count) in &words.counts {
        for piece in lattice.best(word, None).0 {
            counts[piece as usize] += *count as f64;
        }
    }
    let total: f64 = counts.iter().sum();
    let loss = |(at, piece): (usize, &Scored)| {
        if piece.is_character() {
            return f64::INFINITY;
        }
        let (instead, score) = lattice.best(&piece.text, Some(at as u32));
        // What is better spelt by others is never used.
        if score > piece.score || counts[at] == 0.0 {
            return f64::NEG_INFINITY;
        }
        let count = counts[at];
        let total_instead = (total + count * (instead.len() as f64 - 1.0)).ln();
        let others =
            instead.iter().map(|other| (counts[*other as usize] + count).ln() - total_instead);
        count / total * (count.ln() - total.ln() - others.sum::<f64>())
    };
    let mut losses: Vec<(f64, usize)> =
        pieces.iter().enumerate().map(|(at, piece)| (loss((at, piece)), at)).collect();
    losses.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    losses.truncate(((pieces.len() as f64 * KEPT) as usize).max(enough));
    let mut kept: Vec<usize> = losses.into_iter().map(|(_, at)| at).collect();
    kept.sort_unstable();
    kept.into_iter().map(|at| pieces[at].clone()).collect()
}

/// The logarithmic derivative of the gamma function, for positive numbers.
fn digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 7.0 {
        below -= 1.0 / x;
        x += 1.0;
    }
    let square = (x * x).recip();
    let tail =
        square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square / 240.0)));
    below + x.ln() - 0.5 / x - tail
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSCRIPTS: [&str; 4] = [
        "the thing that they thought through this thursday",
        "sing the song that the singer is singing",
        "nothing in the thick of things is thinner than this",
        "the other brother and the mother gather together",
    ];

    fn vocab(size: usize) -> Vec<(String, f64)> {
        let words = Words::count(TRANSCRIPTS, size).unwrap();
        serde_json::from_value(train(&words, size).unwrap()["vocab"].clone()).unwrap()
    }

    #[test]
    fn the_vocabulary_has_its_size_all_characters_and_what_is_frequent() {
        for size in [24, 30, 36] {
            let vocab = vocab(size);
            assert_eq!(vocab.len(), size);
            assert!(vocab.is_sorted_by(|a, b| a.1 >= b.1));
            let words = Words::count(TRANSCRIPTS, size).unwrap();
            for symbol in words.alphabet {
                assert!(vocab.iter().any(|(text, _)| *text == symbol.to_string()), "{symbol}");
            }
        }
        assert!(vocab(36).iter().any(|(text, _)| text.contains("th")), "{:?}", vocab(36));
    }

    #[test]
    fn training_raises_the_likelihood_of_the_words() {
        let words = Words::count(TRANSCRIPTS, 100).unwrap();
        let likelihood = |pieces: &[Scored]| -> f64 {
            let lattice = lattice(pieces);
            let mut ignored = vec![0.0; pieces.len()];
            let log = |(word, count): &(String, u64)| {
                *count as f64 * lattice.expect(word, 1.0, &mut ignored)
            };
            words.counts.iter().map(log).sum()
        };
        let first = seeds(&words);
        let second = maximised(first.clone(), &words, 0);
        let third = maximised(second.clone(), &words, 0);
        assert!(likelihood(&second) > likelihood(&first));
        assert!(likelihood(&third) > likelihood(&second) - 1.0);
    }

    #[test]
    fn what_is_possible_is_told_and_possible() {
        let words = Words::count(TRANSCRIPTS, 100_000).unwrap();
        let error = train(&words, 100_000).unwrap_err();
        let TokensError::TooLarge { possible, .. } = error else { panic!("{error}") };
        assert_eq!(train(&words, possible).unwrap()["vocab"].as_array().unwrap().len(), possible);
    }

    #[test]
    fn the_digamma_function_is_the_known_one() {
        let euler = 0.577_215_664_901_532_9;
        for (x, want) in [
            (1.0, -euler),
            (0.5, -euler - 2.0 * 2.0_f64.ln()),
            (2.0, 1.0 - euler),
            (10.0, 2.251_752_589_066_721),
        ] {
            assert!((digamma(x) - want).abs() < 1e-9, "{x}: {} {want}", digamma(x));
        }
    }
}
