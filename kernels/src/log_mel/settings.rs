//! What makes a log-mel: tables and constants, no names of toolkits. Whoever knows a toolkit's
//! convention computes its window and its bands in f64 and hands them over.
//!
//! Refused: what the transform cannot take, and numbers without a meaning.

/// The longest transform: two samples a unit, four points a unit, and a cube's shared memory bound it.
const MAX_FFT_LEN: usize = 4096;
/// The shortest.
const MIN_FFT_LEN: usize = 16;
/// The greatest window value or factor on a logarithm. Products of such numbers stay far from the end of an f32.
const MAX_FACTOR: f64 = 1e6;
/// The greatest mel weight.
const MAX_WEIGHT: f64 = 1e3;

/// What lies before the first and behind the last sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edges {
    /// Zeros.
    Zeros,
    /// The signal reflected at its first and last sample, which are not repeated.
    Reflect,
    /// The signal mirrored beside its first and last sample, which are repeated.
    Mirror,
}

/// What the pre-emphasis filter `x[n] - c x[n - 1]` runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PreemphasisOver {
    /// The signal; its first sample is kept.
    Signal,
    /// Each frame by itself; its first sample is taken to follow itself.
    Frame,
}

/// How each band is normalised over the valid frames of its utterance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Normalize {
    /// Not at all.
    None,
    /// To mean 0.
    Mean,
    /// To mean 0 and unbiased deviation 1; a constant band becomes 0.
    PerFeature,
}

/// One mel band: the weights of neighbouring bins of the power spectrum.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// The bin of the first weight.
    pub first_bin: usize,
    /// A weight a bin; none is a band of silence.
    pub weights: Vec<f64>,
}

impl Band {
    /// The band of a full row of `fft_len / 2 + 1` weights, without the zeros on both sides.
    pub fn of_row(row: &[f64]) -> Band {
        let first_bin = row.iter().position(|w| *w != 0.0).unwrap_or(0);
        let end = row.iter().rposition(|w| *w != 0.0).map_or(first_bin, |last| last + 1);
        Band { first_bin, weights: row[first_bin..end].to_vec() }
    }
}

/// A log-mel as tables and constants. Samples are read as they are: a factor on them goes into the
/// window.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The window's values; its length is the frame's.
    pub window: Vec<f64>,
    /// Samples between two frames.
    pub hop_len: usize,
    /// Length of the Fourier transform, a power of two, at least the window's.
    pub fft_len: usize,
    /// The sample that the first frame's window begins with; it may lie before the signal.
    pub first_sample: i32,
    /// What frames see outside the signal.
    pub edges: Edges,
    /// Whether each frame's mean is taken off.
    pub remove_dc: bool,
    /// Coefficient of the pre-emphasis filter; 0 switches it off.
    pub preemphasis: f64,
    /// What the filter runs over.
    pub preemphasis_over: PreemphasisOver,
    /// The bands of the power spectrum.
    pub bands: Vec<Band>,
    /// Added to the mel energies before the logarithm.
    pub log_guard: f64,
    /// The least energy that the logarithm sees.
    pub log_floor: f64,
    /// Factor on the natural logarithm, such as `10 / ln 10` for decibels.
    pub log_factor: f64,
    /// Normalisation of each utterance.
    pub normalize: Normalize,
}

/// Why settings were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A transform that is no power of two, or of a length beyond the kernels.
    #[error(
        "a transform of {fft_len} points: the device takes powers of two from {MIN_FFT_LEN} to \
         {MAX_FFT_LEN}; compute these features on the host"
    )]
    FftLen {
        /// Its length.
        fft_len: usize,
    },
    /// A window without a value or longer than the transform.
    #[error(
        "a window of {window_len} samples for a transform of {fft_len}: expected 1 to {fft_len}"
    )]
    WindowLen {
        /// The window's length.
        window_len: usize,
        /// The transform's.
        fft_len: usize,
    },
    /// A hop of nothing, or beyond an index.
    #[error("a hop of {hop_len} samples: expected 1 to 1000000")]
    HopLen {
        /// The hop.
        hop_len: usize,
    },
    /// A first sample beyond an index.
    #[error("frames from sample {first_sample} on: expected -1000000 to 1000000")]
    FirstSample {
        /// The sample.
        first_sample: i32,
    },
    /// No bands.
    #[error("a mel spectrogram without bands: expected at least one")]
    NoBands,
    /// A band outside the spectrum.
    #[error("band {band} takes bins {first_bin} to {end_bin} of a spectrum of {num_bins}")]
    BandOutside {
        /// Which band.
        band: usize,
        /// Its first bin.
        first_bin: usize,
        /// The bin after its last.
        end_bin: usize,
        /// Bins of the spectrum.
        num_bins: usize,
    },
    /// A number without a meaning.
    #[error("{what} = {value}: {reason}")]
    Number {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it has to be.
        reason: &'static str,
    },
}

impl Settings {
    /// Mel bands.
    pub fn num_mels(&self) -> usize {
        self.bands.len()
    }

    /// Bins of a power spectrum.
    pub fn num_bins(&self) -> usize {
        self.fft_len / 2 + 1
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Names the first value without a meaning.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let fft_len = self.fft_len;
        if !fft_len.is_power_of_two() || !(MIN_FFT_LEN..=MAX_FFT_LEN).contains(&fft_len) {
            return Err(SettingsError::FftLen { fft_len });
        }
        let window_len = self.window.len();
        if !(1..=fft_len).contains(&window_len) {
            return Err(SettingsError::WindowLen { window_len, fft_len });
        }
        if !(1..=1_000_000).contains(&self.hop_len) {
            return Err(SettingsError::HopLen { hop_len: self.hop_len });
        }
        if self.first_sample.unsigned_abs() > 1_000_000 {
            return Err(SettingsError::FirstSample { first_sample: self.first_sample });
        }
        if self.bands.is_empty() {
            return Err(SettingsError::NoBands);
        }
        for (band, Band { first_bin, weights }) in self.bands.iter().enumerate() {
            let end_bin = first_bin.saturating_add(weights.len());
            if end_bin > self.num_bins() {
                let (first_bin, num_bins) = (*first_bin, self.num_bins());
                return Err(SettingsError::BandOutside { band, first_bin, end_bin, num_bins });
            }
            for value in weights {
                let reason = "expected 0 to 1000";
                require((0.0..=MAX_WEIGHT).contains(value), "a mel weight", *value, reason)?;
            }
        }
        for value in &self.window {
            let reason = "expected -1e6 to 1e6";
            require(value.abs() <= MAX_FACTOR, "a window value", *value, reason)?;
        }
        let c = self.preemphasis;
        require((0.0..1.0).contains(&c), "preemphasis", c, "expected 0 or more, below 1")?;
        let (guard, floor) = (self.log_guard, self.log_floor);
        require((0.0..=1.0).contains(&guard), "log_guard", guard, "expected 0 to 1")?;
        require((0.0..=1e30).contains(&floor), "log_floor", floor, "expected 0 to 1e30")?;
        // The least number of which a float32 keeps every digit lies a little below.
        let reason = "silence would be minus infinity; expected a guard or a floor from 1e-30 on";
        require(guard.max(floor) >= 1e-30, "log_floor", floor, reason)?;
        let factor = self.log_factor;
        require(factor.abs() <= MAX_FACTOR, "log_factor", factor, "expected -1e6 to 1e6")
    }
}

fn require(
    is_met: bool,
    what: &'static str,
    value: f64,
    reason: &'static str,
) -> Result<(), SettingsError> {
    if is_met { Ok(()) } else { Err(SettingsError::Number { what, value, reason }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            window: vec![1.0; 20],
            hop_len: 10,
            fft_len: 32,
            first_sample: -10,
            edges: Edges::Zeros,
            remove_dc: false,
            preemphasis: 0.97,
            preemphasis_over: PreemphasisOver::Signal,
            bands: vec![Band { first_bin: 3, weights: vec![0.5, 1.0, 0.5] }],
            log_guard: 0.0,
            log_floor: 1e-10,
            log_factor: 1.0,
            normalize: Normalize::None,
        }
    }

    #[test]
    fn a_row_loses_its_zeros_on_both_sides_only() {
        let band = Band::of_row(&[0.0, 0.0, 1.0, 0.0, 2.0, 0.0]);
        assert_eq!(band, Band { first_bin: 2, weights: vec![1.0, 0.0, 2.0] });
        assert_eq!(Band::of_row(&[0.0; 4]), Band { first_bin: 0, weights: vec![] });
    }

    #[test]
    fn what_has_no_meaning_is_named() {
        settings().validate().unwrap();
        type Change = fn(&mut Settings);
        let cases: [(&str, Change); 13] = [
            ("400", |s| s.fft_len = 400),
            ("8192", |s| s.fft_len = 8192),
            ("33 samples", |s| s.window = vec![1.0; 33]),
            ("0 samples", |s| s.window.clear()),
            ("hop", |s| s.hop_len = 0),
            ("from sample", |s| s.first_sample = i32::MIN),
            ("without bands", |s| s.bands.clear()),
            ("15 to 18", |s| s.bands[0].first_bin = 15),
            ("a mel weight", |s| s.bands[0].weights[1] = f64::NAN),
            ("a window value", |s| s.window[3] = f64::INFINITY),
            ("preemphasis", |s| s.preemphasis = 1.0),
            ("log_floor", |s| s.log_floor = 0.0),
            ("log_factor", |s| s.log_factor = f64::NAN),
        ];
        for (name, change) in cases {
            let mut changed = settings();
            change(&mut changed);
            let message = changed.validate().unwrap_err().to_string();
            assert!(message.contains(name), "{name}: {message}");
        }
    }
}
