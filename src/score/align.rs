//! Levenshtein alignment of two symbol sequences, in counts and in moves.
//!
//! Of all alignments with the fewest errors the one with the most hits is taken, as sclite's
//! weights (substitution 4, insertion and deletion 3) would: `a b` against `b c` is a deletion, a
//! hit and an insertion, not two substitutions. That makes the split into S, D and I unique and
//! symmetric. Unlike sclite, no hit is ever bought with a further error, so the sum is the
//! Levenshtein distance. Counts need two rows; moves split the problem (Hirschberg, CACM 18(6),
//! 1975) where a full table would be large.

use std::fmt;

use unicode_width::UnicodeWidthStr;

use super::Edits;

/// Cells of the largest table kept for a trace back, one byte each.
const MAX_TABLE_CELLS: usize = 1 << 22;

/// One error, in the high half so that it outweighs any number of substitutions.
const ERROR: u64 = 1 << 32;
/// Among equal numbers of errors fewer substitutions means more hits, since `2 hits + subs +
/// errors` is the sum of the two lengths.
const SUBSTITUTION: u64 = ERROR + 1;

/// One step of an alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Both sides advance over equal symbols.
    Hit,
    /// Both sides advance over different symbols.
    Sub,
    /// The reference advances.
    Del,
    /// The hypothesis advances.
    Ins,
}

/// Counts of edits from `reference` to `hypothesis`, in memory linear in what is left of the
/// hypothesis when the common ends are set aside.
pub fn edits<T: PartialEq>(reference: &[T], hypothesis: &[T]) -> Edits {
    // Equal first (last) symbols always align in some best alignment, and a good recogniser leaves
    // little else.
    let prefix = reference.iter().zip(hypothesis).take_while(|(r, h)| r == h).count();
    let (r, h) = (&reference[prefix..], &hypothesis[prefix..]);
    let suffix = r.iter().rev().zip(h.iter().rev()).take_while(|(r, h)| r == h).count();
    let (r, h) = (&r[..r.len() - suffix], &h[..h.len() - suffix]);

    let cost = last_row(r.iter(), h)[h.len()];
    let (errors, subs) = ((cost / ERROR) as usize, (cost % ERROR) as usize);
    // dels + inss and dels - inss are both known, so the counts need no trace.
    let dels = (errors - subs + r.len() - h.len()) / 2;
    let hits = r.len() - subs - dels;
    Edits { hits: prefix + hits + suffix, subs, dels, inss: errors - subs - dels }
}

/// Costs of turning all of `reference` into each prefix of `hypothesis`.
fn last_row<'a, T: PartialEq + 'a>(
    reference: impl Iterator<Item = &'a T>,
    hypothesis: &[T],
) -> Vec<u64> {
    last_row_by(reference, hypothesis.len(), |r, j| **r == hypothesis[j])
}

fn last_row_by<R>(
    reference: impl Iterator<Item = R>,
    hypothesis_len: usize,
    is_equal: impl Fn(&R, usize) -> bool,
) -> Vec<u64> {
    let mut row: Vec<u64> = (0..=hypothesis_len as u64).map(|j| j * ERROR).collect();
    for r in reference {
        let mut diagonal = row[0];
        row[0] += ERROR;
        for j in 0..hypothesis_len {
            let straight = diagonal + if is_equal(&r, j) { 0 } else { SUBSTITUTION };
            diagonal = row[j + 1];
            row[j + 1] = straight.min(diagonal + ERROR).min(row[j] + ERROR);
        }
    }
    row
}

/// The moves of one best alignment, first symbol first.
///
/// Ties are broken the same way every time: read from the end, a diagonal step is preferred to a
/// deletion and a deletion to an insertion; longer texts are first cut at the earliest best place.
/// The counts do not depend on it.
pub fn align<T: PartialEq>(reference: &[T], hypothesis: &[T]) -> Vec<Move> {
    let mut moves = Vec::with_capacity(reference.len().max(hypothesis.len()));
    align_into(reference, hypothesis, MAX_TABLE_CELLS, &mut moves);
    moves
}

fn align_into<T: PartialEq>(
    reference: &[T],
    hypothesis: &[T],
    max_cells: usize,
    moves: &mut Vec<Move>,
) {
    let (n, m) = (reference.len(), hypothesis.len());
    if n < 2 || (n + 1).saturating_mul(m + 1) <= max_cells {
        return trace_back(reference, hypothesis, moves);
    }
    let (upper, lower) = reference.split_at(n / 2);
    let head = last_row(upper.iter(), hypothesis);
    let tail = last_row_by(lower.iter().rev(), m, |r, j| **r == hypothesis[m - 1 - j]);
    let cut = (0..=m).min_by_key(|&j| head[j] + tail[m - j]).unwrap_or(0);
    align_into(upper, &hypothesis[..cut], max_cells, moves);
    align_into(lower, &hypothesis[cut..], max_cells, moves);
}

fn trace_back<T: PartialEq>(reference: &[T], hypothesis: &[T], moves: &mut Vec<Move>) {
    let (n, m) = (reference.len(), hypothesis.len());
    let width = m + 1;
    let mut table = vec![Move::Ins; (n + 1) * width];
    let mut row: Vec<u64> = (0..=m as u64).map(|j| j * ERROR).collect();
    for (i, r) in reference.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] += ERROR;
        table[(i + 1) * width] = Move::Del;
        for (j, h) in hypothesis.iter().enumerate() {
            let (step, price) = if r == h { (Move::Hit, 0) } else { (Move::Sub, SUBSTITUTION) };
            let (mut best, mut cost) = (step, diagonal + price);
            diagonal = row[j + 1];
            for (step, price) in [(Move::Del, diagonal + ERROR), (Move::Ins, row[j] + ERROR)] {
                if price < cost {
                    (best, cost) = (step, price);
                }
            }
            row[j + 1] = cost;
            table[(i + 1) * width + j + 1] = best;
        }
    }
    let start = moves.len();
    let (mut i, mut j) = (n, m);
    while i > 0 || j > 0 {
        let step = table[i * width + j];
        i -= usize::from(step != Move::Ins);
        j -= usize::from(step != Move::Del);
        moves.push(step);
    }
    moves[start..].reverse();
}

/// Words of a reference and a hypothesis set against each other, for people.
///
/// ```text
/// REF: the *** cat
/// HYP: the big mat
///          I   S
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alignment<'a> {
    /// Each step with the reference word and the hypothesis word it covers.
    pub rows: Vec<(Move, Option<&'a str>, Option<&'a str>)>,
}

impl<'a> Alignment<'a> {
    /// Aligns the words of two texts.
    pub fn of_words(reference: &'a str, hypothesis: &'a str) -> Self {
        let reference: Vec<&str> = reference.split_whitespace().collect();
        let hypothesis: Vec<&str> = hypothesis.split_whitespace().collect();
        let (mut r, mut h) = (reference.iter().copied(), hypothesis.iter().copied());
        let rows = align(&reference, &hypothesis)
            .into_iter()
            .map(|step| match step {
                Move::Hit | Move::Sub => (step, r.next(), h.next()),
                Move::Del => (step, r.next(), None),
                Move::Ins => (step, None, h.next()),
            })
            .collect();
        Self { rows }
    }

    /// The counts of this alignment.
    pub fn edits(&self) -> Edits {
        let count = |wanted: Move| self.rows.iter().filter(|(step, ..)| *step == wanted).count();
        Edits {
            hits: count(Move::Hit),
            subs: count(Move::Sub),
            dels: count(Move::Del),
            inss: count(Move::Ins),
        }
    }
}

impl fmt::Display for Alignment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = ["REF:".to_owned(), "HYP:".to_owned(), "    ".to_owned()];
        for (step, reference, hypothesis) in &self.rows {
            let width = reference
                .map_or(1, UnicodeWidthStr::width)
                .max(hypothesis.map_or(1, UnicodeWidthStr::width));
            let gap = "*".repeat(width);
            let letter = match step {
                Move::Hit => " ",
                Move::Sub => "S",
                Move::Del => "D",
                Move::Ins => "I",
            };
            for (line, word) in lines.iter_mut().zip([
                reference.unwrap_or(&gap),
                hypothesis.unwrap_or(&gap),
                letter,
            ]) {
                line.push(' ');
                line.push_str(word);
                line.push_str(&" ".repeat(width.saturating_sub(word.width())));
            }
        }
        let [reference, hypothesis, letters] = lines;
        writeln!(f, "{}", reference.trim_end())?;
        writeln!(f, "{}", hypothesis.trim_end())?;
        write!(f, "{}", letters.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marsaglia's xorshift: tests need repeatable variety, not quality.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) % end
        }

        fn text(&mut self, max_len: u64, symbols: u64) -> Vec<u8> {
            (0..self.below(max_len + 1)).map(|_| b'a' + self.below(symbols) as u8).collect()
        }
    }

    /// Slow twin: every alignment is walked; fewest errors, then most hits.
    fn walk_all(r: &[u8], h: &[u8], so_far: Edits, best: &mut Option<Edits>) {
        let rank = |e: &Edits| (e.errors(), usize::MAX - e.hits);
        match (r, h) {
            ([], []) => {
                if best.as_ref().is_none_or(|b| rank(&so_far) < rank(b)) {
                    *best = Some(so_far);
                }
            }
            _ => {
                if let ([x, r @ ..], [y, h @ ..]) = (r, h) {
                    let hits = usize::from(x == y);
                    walk_all(
                        r,
                        h,
                        so_far + Edits { hits, subs: 1 - hits, ..Edits::default() },
                        best,
                    );
                }
                if let [_, r @ ..] = r {
                    walk_all(r, h, so_far + Edits { dels: 1, ..Edits::default() }, best);
                }
                if let [_, h @ ..] = h {
                    walk_all(r, h, so_far + Edits { inss: 1, ..Edits::default() }, best);
                }
            }
        }
    }

    fn count(moves: &[Move]) -> Edits {
        let count = |wanted| moves.iter().filter(|m| **m == wanted).count();
        Edits {
            hits: count(Move::Hit),
            subs: count(Move::Sub),
            dels: count(Move::Del),
            inss: count(Move::Ins),
        }
    }

    /// Replays the moves: a hit must cover equal symbols, a substitution different ones, and both
    /// texts must be used up.
    fn is_valid(moves: &[Move], r: &[u8], h: &[u8]) -> bool {
        let (mut i, mut j) = (0, 0);
        for step in moves {
            let fits = match step {
                Move::Hit => i < r.len() && j < h.len() && r[i] == h[j],
                Move::Sub => i < r.len() && j < h.len() && r[i] != h[j],
                Move::Del => i < r.len(),
                Move::Ins => j < h.len(),
            };
            if !fits {
                return false;
            }
            i += usize::from(*step != Move::Ins);
            j += usize::from(*step != Move::Del);
        }
        (i, j) == (r.len(), h.len())
    }

    #[test]
    fn counts_and_moves_equal_a_walk_over_all_alignments() {
        let mut random = Random(7);
        for _ in 0..400 {
            let symbols = 1 + random.below(4);
            let (r, h) = (random.text(6, symbols), random.text(6, symbols));
            let mut best = None;
            walk_all(&r, &h, Edits::default(), &mut best);
            assert_eq!(Some(edits(&r, &h)), best, "{r:?} {h:?}");
            let moves = align(&r, &h);
            assert_eq!(Some(count(&moves)), best, "{r:?} {h:?}");
            assert!(is_valid(&moves, &r, &h), "{r:?} {h:?} {moves:?}");
        }
    }

    #[test]
    fn splitting_changes_no_count_and_gives_a_valid_alignment() {
        let mut random = Random(11);
        for _ in 0..300 {
            let symbols = 2 + random.below(5);
            let (r, h) = (random.text(60, symbols), random.text(60, symbols));
            let mut moves = Vec::new();
            align_into(&r, &h, 16, &mut moves);
            assert!(is_valid(&moves, &r, &h));
            assert_eq!(count(&moves), edits(&r, &h), "{r:?} {h:?}");
        }
    }

    #[test]
    fn exchanging_the_texts_exchanges_deletions_and_insertions() {
        let mut random = Random(13);
        for _ in 0..500 {
            let (a, b) = (random.text(40, 5), random.text(40, 5));
            let (there, back) = (edits(&a, &b), edits(&b, &a));
            assert_eq!(Edits { dels: back.inss, inss: back.dels, ..back }, there);
            assert_eq!((there.reference_len(), there.hypothesis_len()), (a.len(), b.len()));
        }
    }

    #[test]
    fn the_distance_obeys_the_triangle_and_is_zero_only_between_equals() {
        let mut random = Random(17);
        for _ in 0..500 {
            let (a, b, c) = (random.text(20, 3), random.text(20, 3), random.text(20, 3));
            let distance = |x: &[u8], y: &[u8]| edits(x, y).errors();
            assert!(distance(&a, &c) <= distance(&a, &b) + distance(&b, &c));
            assert_eq!(distance(&a, &b) == 0, a == b);
        }
    }

    #[test]
    fn a_hit_is_preferred_to_two_substitutions() {
        assert_eq!(edits(b"ab", b"bc"), Edits { hits: 1, subs: 0, dels: 1, inss: 1 });
        assert_eq!(align(b"ab", b"bc"), [Move::Del, Move::Hit, Move::Ins]);
        // Never at the price of a further error, where sclite's weights would tie or prefer the
        // hit.
        assert_eq!(edits(b"ab", b"ca").errors(), 2);
    }

    #[test]
    fn one_side_empty_is_all_deletions_or_all_insertions() {
        assert_eq!(edits(b"abc", b""), Edits { dels: 3, ..Edits::default() });
        assert_eq!(edits(b"", b"abc"), Edits { inss: 3, ..Edits::default() });
        assert_eq!(edits::<u8>(&[], &[]), Edits::default());
    }

    #[test]
    fn long_texts_align_in_bounded_memory() {
        let mut random = Random(19);
        let r: Vec<u8> = (0..6000).map(|_| b'a' + random.below(20) as u8).collect();
        let mut h = r.clone();
        for _ in 0..500 {
            let place = random.below(h.len() as u64) as usize;
            if random.below(2) == 0 {
                h.remove(place);
            } else {
                h[place] = b'!';
            }
        }
        let moves = align(&r, &h);
        assert!(is_valid(&moves, &r, &h));
        assert_eq!(count(&moves), edits(&r, &h));
    }

    #[test]
    fn the_view_lines_up_words_gaps_and_letters() {
        let alignment = Alignment::of_words("the cat  sat", "the big mat sat on");
        assert_eq!(alignment.edits(), Edits { hits: 2, subs: 1, dels: 0, inss: 2 });
        let want = "REF: the *** cat sat **\nHYP: the big mat sat on\n         I   S       I";
        assert_eq!(alignment.to_string(), want);
        assert_eq!(Alignment::of_words("oh", "").to_string(), "REF: oh\nHYP: **\n     D");
    }
}
