//! Window functions. A symmetric window ends with the value it begins with; a periodic one stops a
//! sample before that (`periodic=True`, PyTorch's default).

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

/// A window function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Hann, symmetric.
    Hann,
    /// Hann, periodic.
    HannPeriodic,
    /// Hamming (0.54, 0.46), symmetric.
    Hamming,
    /// Hamming (0.54, 0.46), periodic.
    HammingPeriodic,
    /// Kaldi's: the symmetric Hann window to the power of 0.85.
    Povey,
    /// All ones.
    Rectangular,
}

impl Window {
    /// The window's `len` values, at least two.
    pub(super) fn values(self, len: usize) -> Vec<f64> {
        let period = match self {
            Window::HannPeriodic | Window::HammingPeriodic => len,
            _ => len - 1,
        };
        let value = |i: usize| {
            let cosine = (TAU * i as f64 / period as f64).cos();
            match self {
                Window::Hann | Window::HannPeriodic => 0.5 - 0.5 * cosine,
                Window::Hamming | Window::HammingPeriodic => 0.54 - 0.46 * cosine,
                Window::Povey => (0.5 - 0.5 * cosine).powf(0.85),
                Window::Rectangular => 1.0,
            }
        };
        (0..len).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symmetric_windows_read_the_same_backwards_and_periodic_ones_but_for_the_first() {
        for window in [Window::Hann, Window::Hamming, Window::Povey, Window::Rectangular] {
            for len in [2, 3, 400, 401] {
                let values = window.values(len);
                assert_eq!(values.len(), len);
                for (a, b) in values.iter().zip(values.iter().rev()) {
                    assert!((a - b).abs() < 1e-12, "{window:?}");
                }
            }
        }
        for window in [Window::HannPeriodic, Window::HammingPeriodic] {
            let values = window.values(400);
            for (a, b) in values[1..].iter().zip(values[1..].iter().rev()) {
                assert!((a - b).abs() < 1e-12, "{window:?}");
            }
            assert!((values[200] - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn known_values() {
        assert!((Window::Hann.values(5)[1] - 0.5).abs() < 1e-12);
        assert!((Window::HannPeriodic.values(4)[1] - 0.5).abs() < 1e-12);
        assert!((Window::Hamming.values(5)[0] - 0.08).abs() < 1e-12);
        assert!((Window::Povey.values(5)[1] - 0.5_f64.powf(0.85)).abs() < 1e-12);
    }
}
