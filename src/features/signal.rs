//! An utterance's samples as its frames see them: scaled, emphasised where the filter runs over the
//! signal, and going on behind both ends. It is read piece by piece, so that it never has to stand
//! in memory whole.

use multiversion::multiversion;

use super::{Edges, LogMelConfig, PreemphasisOver};

/// A signal over samples of either width.
pub(super) struct Signal<'a, S> {
    samples: &'a [S],
    edges: Edges,
    scale: f64,
    /// Of the filter over the signal.
    preemphasis: f64,
}

impl<'a, S: Copy + Into<f64>> Signal<'a, S> {
    pub(super) fn new(config: &LogMelConfig, samples: &'a [S], scale: f64) -> Signal<'a, S> {
        let preemphasis = match config.preemphasis_over {
            PreemphasisOver::Signal => config.preemphasis,
            PreemphasisOver::Frame => 0.0,
        };
        Signal { samples, edges: config.edges, scale, preemphasis }
    }

    /// Writes what stands from sample `first` on, which may lie outside.
    pub(super) fn read(&self, first: isize, out: &mut [f64]) {
        let (len, wanted) = (self.samples.len() as isize, out.len() as isize);
        // The part of `out` that is inside the signal.
        let start = (-first).clamp(0, wanted);
        let stop = (len - first).clamp(start, wanted);
        for i in (0..start).chain(stop..wanted) {
            let source = self.edges.source(first + i, self.samples.len());
            out[i as usize] = source.map_or(0.0, |at| self.value(at));
        }
        if start < stop {
            let inside = &mut out[start as usize..stop as usize];
            let at = (first + start) as usize;
            inside[0] = self.value(at);
            let samples = &self.samples[at..][..inside.len()];
            emphasised(samples, self.scale, self.preemphasis, &mut inside[1..]);
        }
    }

    fn value(&self, at: usize) -> f64 {
        let scaled = |at: usize| self.samples[at].into() * self.scale;
        match at {
            0 => scaled(0),
            _ => scaled(at) - self.preemphasis * scaled(at - 1),
        }
    }
}

/// All values of `samples` but the first.
#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn emphasised<S: Copy + Into<f64>>(samples: &[S], scale: f64, c: f64, out: &mut [f64]) {
    for (out, pair) in out.iter_mut().zip(samples.windows(2)) {
        *out = pair[1].into() * scale - c * (pair[0].into() * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    #[test]
    fn a_signal_goes_on_as_its_edges_say() {
        let read = |edges, samples: &[f32], first, len| {
            let config = LogMelConfig { edges, ..Preset::Lhotse.settings(16_000) };
            let mut out = vec![f64::NAN; len];
            Signal::new(&config, samples, 2.0).read(first, &mut out);
            out
        };
        let samples = [0.5, 1.0, 1.5];
        assert_eq!(read(Edges::Zeros, &samples, -2, 7), [0., 0., 1., 2., 3., 0., 0.]);
        let reflected = [2., 3., 2., 1., 2., 3., 2., 1., 2.];
        assert_eq!(read(Edges::Reflect, &samples, -3, 9), reflected);
        let mirrored = [3., 3., 2., 1., 1., 2., 3., 3., 2., 1., 1.];
        assert_eq!(read(Edges::Mirror, &samples, -4, 11), mirrored);
        assert_eq!(read(Edges::Mirror, &samples, 1, 1), [2.]);
        assert_eq!(read(Edges::Zeros, &samples, 4, 2), [0., 0.]);
        assert_eq!(read(Edges::Zeros, &samples, -6, 2), [0., 0.]);
        assert_eq!(read(Edges::Zeros, &[], -1, 3), [0., 0., 0.]);
        for edges in [Edges::Reflect, Edges::Mirror] {
            assert_eq!(read(edges, &[3.5], -2, 5), [7.; 5]);
        }
    }

    #[test]
    fn pieces_are_the_same_as_the_whole() {
        let samples: Vec<f32> = (0..40).map(|i| ((i * i) as f32).sin()).collect();
        for edges in [Edges::Zeros, Edges::Reflect, Edges::Mirror] {
            let config = LogMelConfig { edges, ..LogMelConfig::default() };
            let signal = Signal::new(&config, &samples, 1.0);
            let mut whole = vec![0.0; 100];
            signal.read(-30, &mut whole);
            for first in 0..99 {
                for len in 1..(100 - first).min(50) {
                    let mut piece = vec![0.0; len];
                    signal.read(first as isize - 30, &mut piece);
                    assert_eq!(piece, whole[first..][..len]);
                }
            }
            // Emphasis first, then what is outside.
            let emphasised = f64::from(samples[5]) - 0.97 * f64::from(samples[4]);
            assert_eq!(whole[35], emphasised);
            assert_eq!(whole[30], f64::from(samples[0]));
            if edges == Edges::Reflect {
                assert_eq!(whole[25], emphasised);
            }
        }
    }
}
