//! A validated batch of CTC targets: everything the kernels need besides the logits.
//! Refuses whatever could make a kernel read outside its tensors.

use crate::lattice::required_frames;

/// Why a batch of targets was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// The blank is not one of the classes.
    #[error("the blank must be one of the {num_classes} classes but is {blank}")]
    BlankOutOfRange {
        /// The class given as blank.
        blank: u32,
        /// How many classes the logits have.
        num_classes: usize,
    },
    /// One length, one label sequence a row.
    #[error("a batch needs one frame count a target: got {frame_lens} and {labels}")]
    BatchSizes {
        /// How many frame counts were given.
        frame_lens: usize,
        /// How many label sequences were given.
        labels: usize,
    },
    /// An utterance longer than the logits.
    #[error("row {row}: {frames} frames are claimed of logits that hold {num_frames}")]
    TooManyFrames {
        /// The row of the batch.
        row: usize,
        /// Its claimed length.
        frames: usize,
        /// Frames in the logits.
        num_frames: usize,
    },
    /// A target that contains the blank.
    #[error("row {row}, label {position}: a target may not contain the blank ({blank})")]
    BlankInTarget {
        /// The row of the batch.
        row: usize,
        /// Where in the row.
        position: usize,
        /// The blank.
        blank: u32,
    },
    /// A target that names no class.
    #[error("row {row}, label {position}: label {label} is not one of the {num_classes} classes")]
    LabelOutOfRange {
        /// The row of the batch.
        row: usize,
        /// Where in the row.
        position: usize,
        /// The label.
        label: u32,
        /// How many classes the logits have.
        num_classes: usize,
    },
    /// Sizes whose product no index can hold.
    #[error(
        "a batch of {batch_size} x {num_frames} frames x {num_classes} classes has more elements than can be indexed"
    )]
    TooLarge {
        /// Rows.
        batch_size: usize,
        /// Frames in the logits.
        num_frames: usize,
        /// Classes in the logits.
        num_classes: usize,
    },
}

/// A validated batch of targets for logits of `[B, T, C]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    num_frames: usize,
    num_classes: usize,
    blank: u32,
    frame_lens: Vec<usize>,
    labels: Vec<u32>,
    label_lens: Vec<usize>,
    max_label_len: usize,
}

impl Problem {
    /// Checks and packs a batch; `labels` holds one sequence a row, of any lengths.
    ///
    /// # Errors
    /// See [`ProblemError`]. A target too long for its frames is not an error but
    /// infeasible: see [`Problem::is_feasible`].
    pub fn new(
        num_frames: usize,
        num_classes: usize,
        blank: u32,
        frame_lens: Vec<usize>,
        labels: &[Vec<u32>],
    ) -> Result<Self, ProblemError> {
        if blank as usize >= num_classes {
            return Err(ProblemError::BlankOutOfRange { blank, num_classes });
        }
        let batch_size = labels.len();
        if frame_lens.len() != batch_size {
            return Err(ProblemError::BatchSizes {
                frame_lens: frame_lens.len(),
                labels: batch_size,
            });
        }
        batch_size
            .checked_mul(num_frames)
            .and_then(|n| n.checked_mul(num_classes))
            .filter(|n| *n <= isize::MAX as usize / size_of::<f32>())
            .ok_or(ProblemError::TooLarge { batch_size, num_frames, num_classes })?;
        for (row, (target, &frames)) in labels.iter().zip(&frame_lens).enumerate() {
            if frames > num_frames {
                return Err(ProblemError::TooManyFrames { row, frames, num_frames });
            }
            for (position, &label) in target.iter().enumerate() {
                if label == blank {
                    return Err(ProblemError::BlankInTarget { row, position, blank });
                }
                if label as usize >= num_classes {
                    return Err(ProblemError::LabelOutOfRange {
                        row,
                        position,
                        label,
                        num_classes,
                    });
                }
            }
        }
        let label_lens: Vec<usize> = labels.iter().map(Vec::len).collect();
        let max_label_len = label_lens.iter().copied().max().unwrap_or(0);
        let mut packed = vec![blank; batch_size * max_label_len];
        for (row, target) in labels.iter().enumerate() {
            packed[row * max_label_len..][..target.len()].copy_from_slice(target);
        }
        Ok(Self {
            num_frames,
            num_classes,
            blank,
            frame_lens,
            labels: packed,
            label_lens,
            max_label_len,
        })
    }

    /// Rows in the batch (`B`).
    pub fn batch_size(&self) -> usize {
        self.label_lens.len()
    }

    /// Frames the logits hold, padding included (`T`).
    pub fn num_frames(&self) -> usize {
        self.num_frames
    }

    /// Classes the logits hold, blank included (`C`).
    pub fn num_classes(&self) -> usize {
        self.num_classes
    }

    /// The class that spells nothing.
    pub fn blank(&self) -> u32 {
        self.blank
    }

    /// Frames of each row, padding excluded.
    pub fn frame_lens(&self) -> &[usize] {
        &self.frame_lens
    }

    /// Labels of each row.
    pub fn label_lens(&self) -> &[usize] {
        &self.label_lens
    }

    /// The longest target (`S`).
    pub fn max_label_len(&self) -> usize {
        self.max_label_len
    }

    /// All targets as `[B, S]`, padded with the blank.
    pub fn padded_labels(&self) -> &[u32] {
        &self.labels
    }

    /// The target of one row.
    pub fn labels(&self, row: usize) -> &[u32] {
        &self.labels[row * self.max_label_len..][..self.label_lens[row]]
    }

    /// Elements in the logits, `B T C`.
    pub fn num_logits(&self) -> usize {
        self.batch_size() * self.num_frames * self.num_classes
    }

    /// Whether any path of the row's frames spells its target.
    pub fn is_feasible(&self, row: usize) -> bool {
        self.frame_lens[row] >= required_frames(self.labels(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(frame_lens: Vec<usize>, labels: &[Vec<u32>]) -> ProblemError {
        Problem::new(9, 4, 0, frame_lens, labels).expect_err("it is bad")
    }

    #[test]
    fn a_bad_argument_is_named_with_its_place() {
        assert_eq!(
            Problem::new(9, 4, 4, vec![], &[]).expect_err("it is bad"),
            ProblemError::BlankOutOfRange { blank: 4, num_classes: 4 }
        );
        assert_eq!(refusal(vec![9], &[]), ProblemError::BatchSizes { frame_lens: 1, labels: 0 });
        assert_eq!(
            refusal(vec![9, 10], &[vec![], vec![]]),
            ProblemError::TooManyFrames { row: 1, frames: 10, num_frames: 9 }
        );
        assert_eq!(
            refusal(vec![9, 9], &[vec![1], vec![2, 0]]),
            ProblemError::BlankInTarget { row: 1, position: 1, blank: 0 }
        );
        assert_eq!(
            refusal(vec![9], &[vec![1, 2, 4]]),
            ProblemError::LabelOutOfRange { row: 0, position: 2, label: 4, num_classes: 4 }
        );
        assert_eq!(
            Problem::new(usize::MAX / 2, 9, 0, vec![1], &[vec![]]).expect_err("it is bad"),
            ProblemError::TooLarge { batch_size: 1, num_frames: usize::MAX / 2, num_classes: 9 }
        );
    }

    #[test]
    fn feasibility_counts_repeats_and_empty_rows() {
        let labels = [vec![1, 1], vec![1, 1], vec![], vec![2], vec![1, 2]];
        let problem = Problem::new(3, 4, 0, vec![3, 2, 0, 0, 2], &labels).expect("it is good");
        let feasible: Vec<bool> = (0..5).map(|row| problem.is_feasible(row)).collect();
        assert_eq!(feasible, [true, false, true, false, true]);
        assert_eq!(problem.max_label_len(), 2);
        assert_eq!(problem.padded_labels(), [1, 1, 1, 1, 0, 0, 2, 0, 1, 2]);
        assert_eq!(problem.labels(3), [2]);
    }
}
