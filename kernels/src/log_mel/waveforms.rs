//! A validated batch of waveforms in one buffer: where each row's samples lie and how many frames
//! it has. Refuses whatever could make a kernel read outside.

/// The most samples and output values that the kernels' 32-bit signed indices reach.
const MAX_INDEX: usize = i32::MAX as usize;

/// Why a batch of waveforms was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaveformsError {
    /// One sample count, one frame count a row.
    #[error("a batch needs one frame count a waveform: got {frame_lens} and {sample_lens}")]
    BatchSizes {
        /// How many sample counts were given.
        sample_lens: usize,
        /// How many frame counts were given.
        frame_lens: usize,
    },
    /// A waveform longer than its row.
    #[error("row {row}: {samples} samples are claimed of a row that holds {num_samples}")]
    TooManySamples {
        /// The row of the batch.
        row: usize,
        /// Its claimed length.
        samples: usize,
        /// Samples that a row holds.
        num_samples: usize,
    },
    /// A batch that an index does not reach.
    #[error("{what} of a batch are {count}, beyond the {MAX_INDEX} that an index reaches")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
    },
}

/// A batch of waveforms, all in one buffer of f32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waveforms {
    starts: Vec<usize>,
    sample_lens: Vec<usize>,
    frame_lens: Vec<usize>,
    buffer_len: usize,
    num_frames: usize,
}

impl Waveforms {
    /// Rows of `num_samples` each, padded behind `sample_lens`; what stands there is never read.
    /// `frame_lens` counts the frames of each row, as its convention does.
    ///
    /// # Errors
    /// When counts do not match, a row is longer than `num_samples`, or an index does not reach.
    pub fn padded(
        num_samples: usize,
        sample_lens: Vec<usize>,
        frame_lens: Vec<usize>,
    ) -> Result<Waveforms, WaveformsError> {
        if let Some(row) = sample_lens.iter().position(|len| *len > num_samples) {
            let samples = sample_lens[row];
            return Err(WaveformsError::TooManySamples { row, samples, num_samples });
        }
        let starts = (0..sample_lens.len()).map(|row| row.saturating_mul(num_samples)).collect();
        let buffer_len = sample_lens.len().saturating_mul(num_samples);
        Waveforms::new(starts, sample_lens, frame_lens, buffer_len)
    }

    /// One waveform behind the other, without padding.
    ///
    /// # Errors
    /// When counts do not match or an index does not reach.
    pub fn packed(
        sample_lens: Vec<usize>,
        frame_lens: Vec<usize>,
    ) -> Result<Waveforms, WaveformsError> {
        let mut buffer_len = 0_usize;
        let mut starts = Vec::with_capacity(sample_lens.len());
        for len in &sample_lens {
            starts.push(buffer_len);
            buffer_len = buffer_len.saturating_add(*len);
        }
        Waveforms::new(starts, sample_lens, frame_lens, buffer_len)
    }

    fn new(
        starts: Vec<usize>,
        sample_lens: Vec<usize>,
        frame_lens: Vec<usize>,
        buffer_len: usize,
    ) -> Result<Waveforms, WaveformsError> {
        if sample_lens.len() != frame_lens.len() {
            let (sample_lens, frame_lens) = (sample_lens.len(), frame_lens.len());
            return Err(WaveformsError::BatchSizes { sample_lens, frame_lens });
        }
        let most_frames = frame_lens.iter().copied().max().unwrap_or(0);
        let all_frames = most_frames.saturating_mul(frame_lens.len());
        for (what, count) in
            [("rows", starts.len()), ("samples", buffer_len), ("frames", all_frames)]
        {
            if count > MAX_INDEX {
                return Err(WaveformsError::TooLarge { what, count });
            }
        }
        Ok(Waveforms { starts, sample_lens, frame_lens, buffer_len, num_frames: most_frames })
    }

    /// The same with `num_frames` frames a row, where that is more than the longest has: batches of a
    /// bucket share one shape.
    ///
    /// # Errors
    /// When an index does not reach them.
    pub fn with_num_frames(mut self, num_frames: usize) -> Result<Waveforms, WaveformsError> {
        let count = num_frames.saturating_mul(self.batch_size());
        if count > MAX_INDEX {
            return Err(WaveformsError::TooLarge { what: "frames", count });
        }
        self.num_frames = self.num_frames.max(num_frames);
        Ok(self)
    }

    /// Rows.
    pub fn batch_size(&self) -> usize {
        self.starts.len()
    }

    /// Samples that the buffer holds, padding included.
    pub fn buffer_len(&self) -> usize {
        self.buffer_len
    }

    /// The sample that each row begins with.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Samples of each row.
    pub fn sample_lens(&self) -> &[usize] {
        &self.sample_lens
    }

    /// Frames of each row.
    pub fn frame_lens(&self) -> &[usize] {
        &self.frame_lens
    }

    /// Frames of the longest row, or of every row where more were asked for (T).
    pub fn num_frames(&self) -> usize {
        self.num_frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_apart_or_behind_each_other() {
        let padded = Waveforms::padded(10, vec![3, 10, 0], vec![1, 2, 0]).unwrap();
        assert_eq!((padded.starts(), padded.buffer_len()), (&[0, 10, 20][..], 30));
        let packed = Waveforms::packed(vec![3, 10, 0], vec![1, 2, 0]).unwrap();
        assert_eq!((packed.starts(), packed.buffer_len()), (&[0, 3, 13][..], 13));
        assert_eq!((packed.num_frames(), packed.batch_size()), (2, 3));
        assert_eq!(Waveforms::packed(vec![], vec![]).unwrap().num_frames(), 0);
        let of_bucket = |num_frames| padded.clone().with_num_frames(num_frames).unwrap();
        assert_eq!([1, 5].map(|frames| of_bucket(frames).num_frames()), [2, 5]);
        let refused = padded.clone().with_num_frames(1 << 30).unwrap_err();
        assert_eq!(refused, WaveformsError::TooLarge { what: "frames", count: 3 << 30 });
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let refused = Waveforms::padded(10, vec![3, 11], vec![1, 1]).unwrap_err();
        let want = WaveformsError::TooManySamples { row: 1, samples: 11, num_samples: 10 };
        assert_eq!(refused, want);
        let refused = Waveforms::packed(vec![3], vec![1, 1]).unwrap_err();
        assert_eq!(refused, WaveformsError::BatchSizes { sample_lens: 1, frame_lens: 2 });
        for lens in [vec![usize::MAX; 2], vec![1 << 31]] {
            let frames = vec![1; lens.len()];
            let refused = Waveforms::packed(lens, frames).unwrap_err();
            assert!(matches!(refused, WaveformsError::TooLarge { what: "samples", .. }));
        }
        let refused = Waveforms::packed(vec![1, 1], vec![1 << 30, 1 << 30]).unwrap_err();
        assert_eq!(refused, WaveformsError::TooLarge { what: "frames", count: 1 << 31 });
    }
}
