//! All ways to spell a word in pieces, for training: the likeliest, and how often each piece is expected
//! over all of them (forward-backward).

use super::trie::Trie;

/// Pieces with log probabilities.
pub(super) struct Lattice {
    trie: Trie,
    scores: Vec<f64>,
}

struct Node {
    start: usize,
    end: usize,
    piece: u32,
}

impl Lattice {
    pub(super) fn new<'a>(pieces: impl Iterator<Item = (&'a str, f64)>) -> Lattice {
        let mut trie = Trie::default();
        let mut scores = Vec::new();
        for (piece, (text, score)) in pieces.enumerate() {
            trie.insert(text, piece as u32);
            scores.push(score);
        }
        Lattice { trie, scores }
    }

    /// Every piece at every place, by start.
    fn nodes(&self, word: &str) -> Vec<Node> {
        let at = |(start, _)| {
            let found = self.trie.prefixes(&word.as_bytes()[start..]);
            found.map(move |(len, piece)| Node { start, end: start + len, piece })
        };
        word.char_indices().flat_map(at).collect()
    }

    /// The likeliest spelling without the piece `without`, and its log probability (minus infinity if
    /// there is none).
    pub(super) fn best(&self, word: &str, without: Option<u32>) -> (Vec<u32>, f64) {
        let mut best = vec![(f64::NEG_INFINITY, 0, 0); word.len() + 1];
        best[0].0 = 0.0;
        for node in self.nodes(word).iter().filter(|node| Some(node.piece) != without) {
            let score = best[node.start].0 + self.scores[node.piece as usize];
            if score > best[node.end].0 {
                best[node.end] = (score, node.start, node.piece);
            }
        }
        let mut pieces = Vec::new();
        let mut end = if best[word.len()].0.is_finite() { word.len() } else { 0 };
        while end > 0 {
            let (_, start, piece) = best[end];
            pieces.push(piece);
            end = start;
        }
        pieces.reverse();
        (pieces, best[word.len()].0)
    }

    /// Adds to `expected` how often each piece is expected in `count` such words; gives the word's log
    /// probability.
    pub(super) fn expect(&self, word: &str, count: f64, expected: &mut [f64]) -> f64 {
        let nodes = self.nodes(word);
        let len = word.len();
        let mut forward = vec![f64::NEG_INFINITY; len + 1];
        let mut backward = vec![f64::NEG_INFINITY; len + 1];
        (forward[0], backward[len]) = (0.0, 0.0);
        for node in &nodes {
            let score = forward[node.start] + self.scores[node.piece as usize];
            forward[node.end] = log_add(forward[node.end], score);
        }
        for node in nodes.iter().rev() {
            let score = backward[node.end] + self.scores[node.piece as usize];
            backward[node.start] = log_add(backward[node.start], score);
        }
        let total = forward[len];
        if total.is_finite() {
            for node in &nodes {
                let score = self.scores[node.piece as usize];
                let posterior = forward[node.start] + score + backward[node.end] - total;
                expected[node.piece as usize] += count * posterior.exp();
            }
        }
        total
    }
}

fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_those_of_listing_all_spellings() {
        let pieces = [("a", 0.3_f64), ("b", 0.2), ("ab", 0.3), ("ba", 0.1), ("aba", 0.1)];
        let lattice = Lattice::new(pieces.iter().map(|(text, p)| (*text, p.ln())));
        // a b a | ab a | a ba | aba
        let ways = [vec![0, 1, 0], vec![2, 0], vec![0, 3], vec![4]].map(|way: Vec<usize>| {
            (way.iter().map(|piece| pieces[*piece].1).product::<f64>(), way)
        });
        let total: f64 = ways.iter().map(|(p, _)| p).sum();
        let mut want = [0.0; 5];
        for (p, way) in &ways {
            way.iter().for_each(|piece| want[*piece] += 3.0 * p / total);
        }
        let mut found = [0.0; 5];
        let log = lattice.expect("aba", 3.0, &mut found);
        assert!((log - total.ln()).abs() < 1e-12);
        for (found, want) in found.iter().zip(want) {
            assert!((found - want).abs() < 1e-12, "{found} {want}");
        }
        assert_eq!(lattice.best("aba", None).0, [4]);
        let (way, score) = lattice.best("aba", Some(4));
        assert_eq!(way, [2, 0]);
        assert!((score - 0.09_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn a_word_without_a_spelling_has_none() {
        let lattice = Lattice::new([("a", -1.0)].into_iter());
        assert_eq!(lattice.best("ab", None), (vec![], f64::NEG_INFINITY));
        assert_eq!(lattice.best("a", Some(0)).1, f64::NEG_INFINITY);
        let mut expected = [0.0];
        assert_eq!(lattice.expect("ab", 1.0, &mut expected), f64::NEG_INFINITY);
        assert_eq!(expected, [0.0]);
    }
}
