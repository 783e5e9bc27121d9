//! Where frames lie and what they see: how many there are, which sample the first begins with, and
//! which sample stands for one that is not there.
//!
//! A frame is its window; the zeros up to the transform's length move nothing but phases.

use serde::{Deserialize, Serialize};

use super::Edges;

/// Where the frames lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// Centred on every multiple of the hop, the end included: `1 + samples / hop` frames
    /// (`center=True` of `torch.stft`).
    Centers,
    /// The same without the last: one frame a whole hop, `samples / hop`.
    Hops,
    /// Only frames that lie in the signal: `1 + (samples - window) / hop` (Kaldi's
    /// `snip_edges=true`).
    Snip,
    /// Centred in every hop: `samples / hop`, rounded (Kaldi's `snip_edges=false`).
    Rounded,
}

impl Framing {
    /// Frames of `num_samples` samples, where there is something to see.
    pub(super) fn num_frames(self, num_samples: usize, window_len: usize, hop: usize) -> usize {
        match self {
            Framing::Centers => 1 + num_samples / hop,
            Framing::Hops => num_samples / hop,
            Framing::Snip => num_samples.checked_sub(window_len).map_or(0, |rest| 1 + rest / hop),
            Framing::Rounded => (num_samples + hop / 2) / hop,
        }
    }

    /// The sample that the first frame begins with; the others follow a hop apart.
    pub(super) fn first_sample(self, window_len: usize, hop: usize, n_fft: usize) -> isize {
        let (window_len, hop, n_fft) = (window_len as isize, hop as isize, n_fft as isize);
        match self {
            // The window is centred in a transform that is centred on the sample.
            Framing::Centers | Framing::Hops => (n_fft - window_len) / 2 - n_fft / 2,
            Framing::Snip => 0,
            Framing::Rounded => hop / 2 - window_len / 2,
        }
    }
}

impl Edges {
    /// The sample of a signal of `len` (not 0) that stands at `index`. Signals shorter than what is
    /// missing are reflected again and again, where PyTorch refuses them.
    pub(super) fn source(self, index: isize, len: usize) -> Option<usize> {
        let len = len as isize;
        let source = match self {
            Edges::Zeros => {
                return usize::try_from(index).ok().filter(|index| *index < len as usize);
            }
            Edges::Reflect if len == 1 => 0,
            Edges::Reflect => {
                let period = 2 * (len - 1);
                let at = index.rem_euclid(period);
                at.min(period - at)
            }
            Edges::Mirror => {
                let at = index.rem_euclid(2 * len);
                at.min(2 * len - 1 - at)
            }
        };
        Some(source as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_samples_never_have_fewer_frames_and_snipped_ones_fit() {
        for framing in [Framing::Centers, Framing::Hops, Framing::Snip, Framing::Rounded] {
            for (window_len, hop) in [(400, 160), (20, 30), (7, 3)] {
                let mut last = framing.num_frames(0, window_len, hop);
                assert_eq!(last, usize::from(framing == Framing::Centers));
                for len in 1..2_000 {
                    let count = framing.num_frames(len, window_len, hop);
                    assert!(count == last || count == last + 1, "{framing:?} {len}");
                    if framing == Framing::Snip && count > 0 {
                        assert!((count - 1) * hop + window_len <= len);
                        assert!(count * hop + window_len > len);
                    }
                    last = count;
                }
            }
        }
    }
}
