//! Byte-pair merges learnt from words: the most frequent pair of neighbours becomes a piece until there
//! are enough (Sennrich et al. 2016). Choices and ties are those of Hugging Face's `BpeTrainer`, so that
//! the same text gives the same vocabulary; `scripts/make_token_goldens.py` compares.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use serde_json::{Value, json};

use super::error::TokensError;
use super::words::Words;

type Pair = (u32, u32);

/// The model of a `tokenizer.json` with exactly `size` pieces.
///
/// # Errors
/// When the words give fewer.
pub(super) fn train(words: &Words, size: usize) -> Result<Value, TokensError> {
    let mut pieces: Vec<String> = words.alphabet.iter().map(char::to_string).collect();
    let mut classes: HashMap<String, u32> =
        pieces.iter().enumerate().map(|(class, piece)| (piece.clone(), class as u32)).collect();
    let class_of = |symbol: char| {
        words.alphabet.binary_search(&symbol).expect("the alphabet has all characters") as u32
    };
    let mut spelt: Vec<Vec<u32>> =
        words.counts.iter().map(|(word, _)| word.chars().map(class_of).collect()).collect();

    let mut counts: HashMap<Pair, i64> = HashMap::new();
    let mut places: BTreeMap<Pair, BTreeSet<usize>> = BTreeMap::new();
    for (at, (word, (_, count))) in spelt.iter().zip(&words.counts).enumerate() {
        for pair in word.windows(2).map(|pair| (pair[0], pair[1])) {
            *counts.entry(pair).or_default() += *count as i64;
            places.entry(pair).or_default().insert(at);
        }
    }
    let mut queue = BinaryHeap::new();
    let mut merges: Vec<Pair> = Vec::new();
    while pieces.len() < size {
        // The places found since the last merge, each pair with its count as it is now.
        for (pair, places) in std::mem::take(&mut places) {
            if counts[&pair] > 0 {
                queue.push((counts[&pair], Reverse(pair), places));
            }
        }
        let Some((count, Reverse(pair), at)) = queue.pop() else { break };
        if count != counts[&pair] {
            queue.push((counts[&pair], Reverse(pair), at));
            continue;
        }
        if count < 1 {
            break;
        }
        let piece = format!("{}{}", pieces[pair.0 as usize], pieces[pair.1 as usize]);
        // Two pairs may spell one piece.
        let class = *classes.entry(piece).or_insert_with_key(|piece| {
            pieces.push(piece.clone());
            pieces.len() as u32 - 1
        });
        merges.push(pair);
        for at in at {
            let count = words.counts[at].1 as i64;
            for (pair, change) in merge(&mut spelt[at], pair, class) {
                *counts.entry(pair).or_default() += change * count;
                if change > 0 {
                    places.entry(pair).or_default().insert(at);
                }
            }
        }
    }
    if pieces.len() < size {
        return Err(TokensError::TooLarge { size, possible: pieces.len() });
    }
    Ok(model(&pieces, &merges))
}

/// Merges a pair wherever it stands in a word, and tells which pairs came and went.
fn merge(word: &mut Vec<u32>, pair: Pair, class: u32) -> Vec<(Pair, i64)> {
    let mut changes = Vec::new();
    let mut at = 0;
    while at + 1 < word.len() {
        if (word[at], word[at + 1]) == pair {
            if let Some(before) = at.checked_sub(1).map(|before| word[before]) {
                changes.extend([((before, pair.0), -1), ((before, class), 1)]);
            }
            word.splice(at..at + 2, [class]);
            if let Some(after) = word.get(at + 1) {
                changes.extend([((pair.1, *after), -1), ((class, *after), 1)]);
            }
        }
        at += 1;
    }
    changes
}

fn model(pieces: &[String], merges: &[Pair]) -> Value {
    let vocab: serde_json::Map<String, Value> =
        pieces.iter().enumerate().map(|(class, piece)| (piece.clone(), class.into())).collect();
    let texts = |pair: &Pair| [&pieces[pair.0 as usize], &pieces[pair.1 as usize]];
    // Of a pair that was merged twice the later counts.
    let mut seen = BTreeSet::new();
    let mut kept: Vec<Pair> =
        merges.iter().rev().copied().filter(|pair| seen.insert(*pair)).collect();
    kept.reverse();
    json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": null,
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null,
        "fuse_unk": false,
        "byte_fallback": false,
        "ignore_merges": false,
        "vocab": vocab,
        "merges": kept.iter().map(texts).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merges(transcripts: &[&str], size: usize) -> Vec<String> {
        let words = Words::count(transcripts.iter().copied(), size).unwrap();
        let model = train(&words, size).unwrap();
        let pair =
            |pair: &Value| format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        model["merges"].as_array().unwrap().iter().map(pair).collect()
    }

    /// The slow twin: counts all pairs anew before each merge.
    fn slowly(transcripts: &[&str], num_merges: usize) -> Vec<String> {
        let words = Words::count(transcripts.iter().copied(), 1_000).unwrap();
        let mut names: Vec<String> = words.alphabet.iter().map(char::to_string).collect();
        let mut spelt: Vec<(Vec<usize>, u64)> = words
            .counts
            .iter()
            .map(|(word, count)| {
                let class = |c| words.alphabet.iter().position(|other| *other == c).unwrap();
                (word.chars().map(class).collect(), *count)
            })
            .collect();
        let mut merges = Vec::new();
        for _ in 0..num_merges {
            let mut counts: BTreeMap<(usize, usize), u64> = BTreeMap::new();
            for (word, count) in &spelt {
                for pair in word.windows(2) {
                    *counts.entry((pair[0], pair[1])).or_default() += count;
                }
            }
            let best = counts.iter().max_by_key(|(pair, count)| (**count, Reverse(**pair)));
            let (left, right) = *best.unwrap().0;
            merges.push(format!("{} {}", names[left], names[right]));
            names.push(format!("{}{}", names[left], names[right]));
            for (word, _) in &mut spelt {
                let mut at = 0;
                while at + 1 < word.len() {
                    if (word[at], word[at + 1]) == (left, right) {
                        word.splice(at..at + 2, [names.len() - 1]);
                    }
                    at += 1;
                }
            }
        }
        merges
    }

    #[test]
    fn merges_are_those_of_counting_anew_each_time() {
        let transcripts = [
            "low lower lowest new newer newest wide wider widest",
            "low low low new widest banana bandana cabana aaa aaaa",
        ];
        let alphabet = Words::count(transcripts, 1_000).unwrap().alphabet.len();
        assert_eq!(merges(&transcripts, alphabet + 25), slowly(&transcripts, 25));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let words = |size| Words::count(["abc ab"], size);
        assert!(matches!(words(3), Err(TokensError::TooSmall { characters: 4, .. })));
        let error = train(&words(100).unwrap(), 100).unwrap_err();
        let TokensError::TooLarge { possible, .. } = error else { panic!("{error}") };
        assert!(train(&words(possible).unwrap(), possible).is_ok());
        assert!(matches!(Words::count(["", " "], 9), Err(TokensError::Empty)));
        assert!(matches!(Words::count(["a\u{2581}b"], 9), Err(TokensError::Mark { count: 1 })));
    }
}
