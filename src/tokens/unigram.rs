//! The unigram language model's best segmentation of a text: the pieces whose scores add up to most
//! (Kudo 2018), as SentencePiece's and Hugging Face's optimised encoders find it, ties and rounding
//! included: the former adds in single precision, the latter in double.

use super::pieces::{Kind, Piece, Span};
use super::trie::Trie;

/// How much worse than the worst piece an unknown character is.
const UNKNOWN_PENALTY: f64 = 10.0;

/// Pieces with their log probabilities.
#[derive(Clone, Debug)]
pub(super) struct Unigram {
    trie: Trie,
    scores: Vec<f64>,
    unknown_score: f64,
    is_single_precision: bool,
}

#[derive(Clone, Copy)]
struct Best {
    score: f64,
    start: Option<usize>,
    class: Option<u32>,
}

impl Unigram {
    /// `scores` has one for each piece.
    pub(super) fn new(pieces: &[Piece], scores: &[f64], is_single_precision: bool) -> Unigram {
        let round = |x: f64| if is_single_precision { f64::from(x as f32) } else { x };
        let mut trie = Trie::default();
        let normal = || pieces.iter().zip(scores).filter(|(piece, _)| piece.kind == Kind::Normal);
        let lowest = normal().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
        let highest = normal().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
        let lowest = if lowest.is_finite() { lowest } else { 0.0 };
        let mut own = scores.to_vec();
        for (class, (piece, score)) in pieces.iter().zip(&mut own).enumerate() {
            match piece.kind {
                Kind::Normal => {}
                // As good as one piece a byte, each of them the best.
                Kind::UserDefined => *score = round(piece.text.len() as f64 * highest) - 0.1,
                Kind::Byte(_) | Kind::Silent => continue,
            }
            trie.insert(&piece.text, class as u32);
        }
        Unigram {
            trie,
            scores: own,
            unknown_score: round(lowest - UNKNOWN_PENALTY),
            is_single_precision,
        }
    }

    /// The pieces of `text`, in order; a character without any is a span without a class.
    pub(super) fn encode(&self, text: &str) -> Vec<Span> {
        let mut best = vec![Best { score: 0.0, start: None, class: None }; text.len() + 1];
        let offer = |best: &mut [Best], start: usize, end: usize, score: f64, class| {
            let score = self.round(score + best[start].score);
            if best[end].start.is_none() || score > best[end].score {
                best[end] = Best { score, start: Some(start), class };
            }
        };
        for (start, first) in text.char_indices() {
            let mut is_spelt = false;
            for (len, class) in self.trie.prefixes(&text.as_bytes()[start..]) {
                let score = self.scores[class as usize];
                offer(&mut best, start, start + len, score, Some(class));
                is_spelt |= len == first.len_utf8();
            }
            if !is_spelt {
                offer(&mut best, start, start + first.len_utf8(), self.unknown_score, None);
            }
        }
        let mut spans = Vec::new();
        let mut end = text.len();
        while end > 0 {
            let Best { start, class, .. } = best[end];
            let start = start.expect("every character starts a piece or is unknown");
            spans.push(Span { start, end, class });
            end = start;
        }
        spans.reverse();
        spans
    }

    fn round(&self, x: f64) -> f64 {
        if self.is_single_precision { f64::from(x as f32) } else { x }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, kind: Kind) -> Piece {
        Piece { text: text.to_owned(), kind }
    }

    fn spelt(unigram: &Unigram, text: &str) -> String {
        let spans = unigram.encode(text);
        let parts: Vec<&str> = spans.iter().map(|span| &text[span.start..span.end]).collect();
        assert_eq!(parts.concat(), text);
        parts.join(" ")
    }

    #[test]
    fn the_best_segmentation_is_that_of_trying_all() {
        let texts = ["a", "b", "ab", "ba", "aab", "bb", "abab"];
        let scores = [-2.0, -2.5, -3.1, -3.3, -5.0, -4.0, -6.3];
        let pieces: Vec<Piece> = texts.iter().map(|text| piece(text, Kind::Normal)).collect();
        let unigram = Unigram::new(&pieces, &scores, false);
        for number in 0..2_usize.pow(8) {
            let text: String = (0..8).map(|at| ["a", "b"][number >> at & 1]).collect();
            let best = (0..1_usize << 7)
                .filter_map(|cuts| {
                    let mut score = 0.0;
                    let mut start = 0;
                    for end in 1..=8 {
                        if end == 8 || cuts >> (end - 1) & 1 == 1 {
                            let at = texts.iter().position(|piece| *piece == &text[start..end])?;
                            score += scores[at];
                            start = end;
                        }
                    }
                    Some(score)
                })
                .fold(f64::NEG_INFINITY, f64::max);
            let spans = unigram.encode(&text);
            let found: f64 = spans.iter().map(|span| scores[span.class.unwrap() as usize]).sum();
            assert!((found - best).abs() < 1e-9, "{text}: {found} {best}");
        }
    }

    #[test]
    fn unknown_characters_stand_alone_and_user_defined_pieces_always_win() {
        let pieces = [
            piece("a", Kind::Normal),
            piece("aa", Kind::Normal),
            piece("aXa", Kind::UserDefined),
            piece("<unk>", Kind::Silent),
        ];
        let unigram = Unigram::new(&pieces, &[-1.0, -1.5, 0.0, 0.0], true);
        assert_eq!(spelt(&unigram, "aa\u{e9}\u{e9}a"), "aa \u{e9} \u{e9} a");
        assert_eq!(spelt(&unigram, "aaXaa"), "a aXa a");
        assert_eq!(spelt(&unigram, ""), "");
        let spans = unigram.encode("<unk>");
        assert!(spans.iter().all(|span| span.class.is_none()), "{spans:?}");
    }
}
