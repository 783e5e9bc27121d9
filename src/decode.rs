//! Greedy CTC decoding: the best class of every valid frame, repeats collapsed, blanks dropped.
//!
//! Frames past an utterance's own length are never read, so batch mates and padding cannot change a
//! hypothesis. The collapse is the map B of Graves et al., "Connectionist Temporal Classification",
//! ICML 2006, section 3.1.

// B utterances, T frames.

use std::ops::AddAssign;

use thiserror::Error;

/// Why a batch of best classes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The flattened classes are not `B x T`.
    #[error("best classes of {utterances} utterances x {num_frames} frames must hold {} values, not {found}", utterances * num_frames)]
    WrongShape {
        /// B, the number of frame lengths given.
        utterances: usize,
        /// T, frames per utterance with padding.
        num_frames: usize,
        /// Values found.
        found: usize,
    },
    /// A frame length reaches beyond the frames there are.
    #[error(
        "utterance {row} of the batch claims {frame_len} frames, but the batch holds {num_frames}"
    )]
    FrameLenBeyond {
        /// Row in the batch.
        row: usize,
        /// The claimed length.
        frame_len: usize,
        /// T, frames per utterance with padding.
        num_frames: usize,
    },
}

/// Blank frames among valid frames: near 1 early in training (CTC's blank phase), well below it
/// once words appear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlankCount {
    /// Valid frames whose best class is blank.
    pub blanks: usize,
    /// Valid frames.
    pub frames: usize,
}

impl BlankCount {
    /// Share of blank frames; `None` when there are no frames.
    pub fn rate(self) -> Option<f64> {
        (self.frames > 0).then(|| self.blanks as f64 / self.frames as f64)
    }
}

impl AddAssign for BlankCount {
    fn add_assign(&mut self, other: Self) {
        self.blanks += other.blanks;
        self.frames += other.frames;
    }
}

/// A decoded batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greedy<C> {
    /// Labels of each utterance, blank-free.
    pub labels: Vec<Vec<C>>,
    /// Blank frames over the whole batch.
    pub blanks: BlankCount,
}

/// Decodes the best class of every frame, `best_classes` being `[B, T]` row by row.
///
/// # Errors
/// When `best_classes` does not hold `B x num_frames` values or a length exceeds `num_frames`.
pub fn greedy<C: Copy + PartialEq>(
    best_classes: &[C],
    num_frames: usize,
    frame_lens: &[usize],
    blank: C,
) -> Result<Greedy<C>, DecodeError> {
    let utterances = frame_lens.len();
    if Some(best_classes.len()) != utterances.checked_mul(num_frames) {
        return Err(DecodeError::WrongShape { utterances, num_frames, found: best_classes.len() });
    }
    let mut decoded =
        Greedy { labels: Vec::with_capacity(utterances), blanks: BlankCount::default() };
    for (row, &frame_len) in frame_lens.iter().enumerate() {
        if frame_len > num_frames {
            return Err(DecodeError::FrameLenBeyond { row, frame_len, num_frames });
        }
        let path = &best_classes[row * num_frames..][..frame_len];
        decoded.labels.push(collapse(path, blank));
        decoded.blanks.frames += frame_len;
        decoded.blanks.blanks += path.iter().filter(|class| **class == blank).count();
    }
    Ok(decoded)
}

/// The labels that one path of classes spells.
pub fn collapse<C: Copy + PartialEq>(path: &[C], blank: C) -> Vec<C> {
    let mut labels = Vec::new();
    let mut previous = blank;
    for &class in path {
        if class != blank && class != previous {
            labels.push(class);
        }
        previous = class;
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slow twin, the two steps of the paper one after the other: runs to one symbol, then blanks
    /// away.
    fn collapse_in_two_steps(path: &[i32], blank: i32) -> Vec<i32> {
        let mut runs = path.to_vec();
        runs.dedup();
        runs.retain(|class| *class != blank);
        runs
    }

    /// All paths of `len` classes out of `classes`.
    fn paths(len: usize, classes: i32) -> Vec<Vec<i32>> {
        (0..len).fold(vec![vec![]], |shorter, _| {
            shorter
                .iter()
                .flat_map(|path| {
                    (0..classes).map(move |class| [path.as_slice(), &[class]].concat())
                })
                .collect()
        })
    }

    #[test]
    fn collapsing_equals_the_two_steps_of_the_paper_for_every_short_path() {
        for len in 0..=6 {
            for path in paths(len, 3) {
                for blank in 0..3 {
                    assert_eq!(
                        collapse(&path, blank),
                        collapse_in_two_steps(&path, blank),
                        "{path:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_path_that_spells_labels_decodes_to_them() {
        // Paths are built from the labels: each repeated 1..=2 times, 0..=1 blanks between, one
        // where neighbours equal.
        let blank = 0;
        for labels in
            paths(4, 3).into_iter().map(|p| p.into_iter().map(|c| c + 1).collect::<Vec<_>>())
        {
            for choice in 0..1 << 9_u32 {
                let mut path = Vec::new();
                for (i, &label) in labels.iter().enumerate() {
                    let needs_blank = i > 0 && labels[i - 1] == label;
                    if needs_blank || choice >> (2 * i) & 1 == 1 {
                        path.push(blank);
                    }
                    path.extend(vec![label; 1 + (choice >> (2 * i + 1) & 1) as usize]);
                }
                if choice >> 8 == 1 {
                    path.push(blank);
                }
                assert_eq!(collapse(&path, blank), labels, "{path:?}");
            }
        }
    }

    #[test]
    fn exactly_five_of_27_paths_of_three_frames_spell_ab() {
        let spelling = paths(3, 3).into_iter().filter(|path| collapse(path, 0) == [1, 2]).count();
        assert_eq!(spelling, 5);
    }

    #[test]
    fn frames_past_the_length_are_never_read() {
        // The second row holds a label and a blank in its padding; neither is decoded nor counted.
        let classes = [1, 1, 0, 1, 2, 0, 7, 0_i32];
        let decoded = greedy(&classes, 4, &[4, 2], 0).unwrap();
        assert_eq!(decoded.labels, [vec![1, 1], vec![2]]);
        assert_eq!(decoded.blanks, BlankCount { blanks: 2, frames: 6 });
        assert_eq!(decoded.blanks.rate(), Some(1.0 / 3.0));
    }

    #[test]
    fn nothing_to_decode_gives_nothing_and_no_rate() {
        assert_eq!(greedy::<u32>(&[], 0, &[], 0).unwrap().blanks.rate(), None);
        assert_eq!(greedy(&[5_u32, 5], 1, &[0, 0], 0).unwrap().labels, vec![Vec::<u32>::new(); 2]);
    }

    #[test]
    fn wrong_shapes_are_errors_that_name_the_numbers() {
        let short = greedy(&[0_i32; 5], 3, &[3, 3], 0).unwrap_err();
        assert_eq!(
            short.to_string(),
            "best classes of 2 utterances x 3 frames must hold 6 values, not 5"
        );
        let long = greedy(&[0_i32; 6], 3, &[3, 4], 0).unwrap_err();
        assert_eq!(
            long.to_string(),
            "utterance 1 of the batch claims 4 frames, but the batch holds 3"
        );
    }
}
