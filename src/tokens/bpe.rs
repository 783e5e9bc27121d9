//! Byte-pair encoding of a text: of all neighbours that may merge, those of the lowest rank merge first,
//! of equal ones the leftmost. Ranks are a list of merges (Hugging Face) or the order of the pieces'
//! scores (SentencePiece). Sennrich et al. 2016.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::pieces::{Pieces, Span};
use super::trie::Trie;

/// Which neighbours merge, and when.
#[derive(Clone, Debug)]
pub(super) enum Merges {
    /// Rank and merged class of two classes.
    Pairs(HashMap<(u32, u32), (u32, u32)>),
    /// The rank of each class: neighbours merge if together they are a piece.
    Pieces(Vec<u32>),
}

/// Merges, and what never is merged.
#[derive(Clone, Debug)]
pub(super) struct Bpe {
    pub(super) merges: Merges,
    /// A word that is a piece is that piece, whatever the merges.
    pub(super) whole_words: bool,
    /// Pieces that are never broken up.
    pub(super) user_defined: Trie,
}

#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    end: usize,
    class: Option<u32>,
    is_frozen: bool,
    previous: Option<usize>,
    next: Option<usize>,
}

impl Bpe {
    /// The pieces of `text`, in order.
    pub(super) fn encode(&self, pieces: &Pieces, text: &str) -> Vec<Span> {
        if self.whole_words
            && let Some(class) = pieces.class(text)
        {
            return vec![Span { start: 0, end: text.len(), class: Some(class) }];
        }
        let mut symbols = self.symbols(pieces, text);
        let mut queue = BinaryHeap::new();
        for left in 0..symbols.len().saturating_sub(1) {
            queue.extend(self.candidate(pieces, text, &symbols, left));
        }
        while let Some(Reverse((_, left, class))) = queue.pop() {
            // What was queued may have changed since.
            let pair = self.merged(pieces, text, &symbols, left);
            let Some(right) = symbols[left].next.filter(|_| pair.is_some_and(|(_, c)| c == class))
            else {
                continue;
            };
            let next = symbols[right].next;
            symbols[left].end = symbols[right].end;
            symbols[left].class = Some(class);
            symbols[left].next = next;
            symbols[right].end = symbols[right].start;
            symbols[right].next = None;
            if let Some(next) = next {
                symbols[next].previous = Some(left);
            }
            queue.extend(self.candidate(pieces, text, &symbols, left));
            if let Some(previous) = symbols[left].previous {
                queue.extend(self.candidate(pieces, text, &symbols, previous));
            }
        }
        symbols
            .iter()
            .filter(|symbol| symbol.start < symbol.end)
            .map(|symbol| Span { start: symbol.start, end: symbol.end, class: symbol.class })
            .collect()
    }

    fn symbols(&self, pieces: &Pieces, text: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = Vec::with_capacity(text.len());
        let mut start = 0;
        while let Some(first) = text[start..].chars().next() {
            let frozen = self.user_defined.prefixes(&text.as_bytes()[start..]).last();
            let len = frozen.map_or(first.len_utf8(), |(len, _)| len);
            let end = start + len;
            let class = frozen.map(|(_, class)| class).or_else(|| pieces.class(&text[start..end]));
            let index = symbols.len();
            symbols.push(Symbol {
                start,
                end,
                class,
                is_frozen: frozen.is_some(),
                previous: index.checked_sub(1),
                next: Some(index + 1),
            });
            start = end;
        }
        if let Some(last) = symbols.last_mut() {
            last.next = None;
        }
        symbols
    }

    /// Rank and class of a symbol merged with its right neighbour.
    fn merged(
        &self,
        pieces: &Pieces,
        text: &str,
        symbols: &[Symbol],
        left: usize,
    ) -> Option<(u32, u32)> {
        let left = symbols[left];
        let right = symbols[left.next?];
        match &self.merges {
            Merges::Pairs(pairs) => pairs.get(&(left.class?, right.class?)).copied(),
            Merges::Pieces(_) if left.is_frozen || right.is_frozen => None,
            Merges::Pieces(ranks) => {
                let class = pieces.class(&text[left.start..right.end])?;
                Some((ranks[class as usize], class))
            }
        }
    }

    fn candidate(
        &self,
        pieces: &Pieces,
        text: &str,
        symbols: &[Symbol],
        left: usize,
    ) -> Option<Reverse<(u32, usize, u32)>> {
        let (rank, class) = self.merged(pieces, text, symbols, left)?;
        Some(Reverse((rank, left, class)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::{Kind, Piece};
    use super::*;

    fn pieces(texts: &[&str]) -> Pieces {
        let piece = |text: &&str| Piece { text: (*text).to_owned(), kind: Kind::Normal };
        Pieces::new(texts.iter().map(piece).collect(), false)
    }

    fn spelt(bpe: &Bpe, pieces: &Pieces, text: &str) -> String {
        let spans = bpe.encode(pieces, text);
        let parts: Vec<&str> = spans.iter().map(|span| &text[span.start..span.end]).collect();
        assert_eq!(parts.concat(), text, "the spans tile the text");
        parts.join(" ")
    }

    /// The slow twin: merges the first pair of the lowest rank until there is none.
    fn slowly(pairs: &HashMap<(u32, u32), (u32, u32)>, mut classes: Vec<u32>) -> Vec<u32> {
        loop {
            let best = classes
                .windows(2)
                .enumerate()
                .filter_map(|(at, pair)| {
                    let (rank, class) = pairs.get(&(pair[0], pair[1]))?;
                    Some((*rank, at, *class))
                })
                .min();
            let Some((_, at, class)) = best else { return classes };
            classes.splice(at..at + 2, [class]);
        }
    }

    #[test]
    fn the_queue_merges_as_the_slow_twin_does() {
        let texts = ["a", "b", "c", "ab", "bc", "abc", "aa", "aab", "ca", "abca"];
        let pieces = pieces(&texts);
        let class = |text: &str| pieces.class(text).unwrap();
        let merges = [
            ("a", "b"),
            ("b", "c"),
            ("a", "a"),
            ("ab", "c"),
            ("aa", "b"),
            ("c", "a"),
            ("abc", "a"),
        ];
        let pairs: HashMap<_, _> = merges
            .iter()
            .enumerate()
            .map(|(rank, (left, right))| {
                let merged = class(&format!("{left}{right}"));
                ((class(left), class(right)), (rank as u32, merged))
            })
            .collect();
        let merges = Merges::Pairs(pairs.clone());
        let bpe = Bpe { merges, whole_words: false, user_defined: Trie::default() };
        for number in 0..3_usize.pow(7) {
            let text: String =
                (0..7).map(|at| ["a", "b", "c"][number / 3_usize.pow(at) % 3]).collect();
            let spans = bpe.encode(&pieces, &text);
            let found: Vec<u32> = spans.iter().map(|span| span.class.unwrap()).collect();
            let start: Vec<u32> = text.chars().map(|c| class(&c.to_string())).collect();
            assert_eq!(found, slowly(&pairs, start), "{text}");
        }
    }

    #[test]
    fn ranks_of_pieces_merge_what_together_is_one_and_the_leftmost_of_equals_first() {
        let pieces = pieces(&["a", "b", "ab", "ba", "aba", "xy"]);
        let bpe = |ranks: [u32; 6]| Bpe {
            merges: Merges::Pieces(ranks.to_vec()),
            whole_words: false,
            user_defined: Trie::default(),
        };
        assert_eq!(spelt(&bpe([9, 9, 1, 1, 2, 3]), &pieces, "bab"), "ba b");
        assert_eq!(spelt(&bpe([9, 9, 1, 2, 2, 3]), &pieces, "bab"), "b ab");
        assert_eq!(spelt(&bpe([9, 9, 1, 2, 2, 3]), &pieces, "aba"), "aba");
        assert_eq!(spelt(&bpe([9; 6]), &pieces, "xya"), "xy a", "x and y are no pieces alone");
        assert_eq!(spelt(&bpe([9; 6]), &pieces, ""), "");
        assert_eq!(spelt(&bpe([9; 6]), &pieces, "\u{e9}b\u{e9}"), "\u{e9} b \u{e9}");
    }

    #[test]
    fn what_a_user_defined_is_never_broken_up_nor_merged() {
        let pieces = pieces(&["a", "b", "ab", "aab"]);
        let mut user_defined = Trie::default();
        user_defined.insert("ab", 2);
        let bpe = Bpe { merges: Merges::Pieces(vec![1; 4]), whole_words: false, user_defined };
        assert_eq!(spelt(&bpe, &pieces, "aabb"), "a ab b");
    }
}
