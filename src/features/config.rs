//! The settings of the features. They are saved with every run: a model is only good for the features
//! it was trained on.

use serde::{Deserialize, Serialize};

/// How the log-mel values of one utterance are normalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalize {
    /// Each band to mean 0 and (unbiased) deviation 1 over the frames of its utterance.
    #[default]
    PerFeature,
    /// Left as they are.
    None,
}

/// A log-mel spectrogram in NeMo's convention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogMelConfig {
    /// Sample rate of the audio.
    pub sample_rate_hz: u32,
    /// Length of the Hann window.
    pub window_ms: f64,
    /// Distance between frames.
    pub hop_ms: f64,
    /// Length of the Fourier transform; the window lies in its middle.
    pub n_fft: usize,
    /// Mel bands.
    pub num_mels: usize,
    /// Coefficient of the pre-emphasis filter; 0 switches it off.
    pub preemphasis: f64,
    /// Lower edge of the lowest band.
    pub fmin_hz: f64,
    /// Upper edge of the highest band; 0 is half the sample rate.
    pub fmax_hz: f64,
    /// Added to the mel energies before the logarithm.
    pub log_guard: f64,
    /// Normalisation of each utterance.
    pub normalize: Normalize,
}

impl Default for LogMelConfig {
    fn default() -> LogMelConfig {
        LogMelConfig {
            sample_rate_hz: 16_000,
            window_ms: 25.0,
            hop_ms: 10.0,
            n_fft: 512,
            num_mels: 80,
            preemphasis: 0.97,
            fmin_hz: 0.0,
            fmax_hz: 0.0,
            log_guard: 2_f64.powi(-24),
            normalize: Normalize::PerFeature,
        }
    }
}

/// A setting without a meaning.
#[derive(Debug, thiserror::Error)]
#[error("features.{key} = {value}: {reason}")]
pub struct FeatureError {
    /// The setting.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What it has to be.
    pub reason: String,
}

impl LogMelConfig {
    /// Samples in a window.
    pub fn window_len(&self) -> usize {
        (f64::from(self.sample_rate_hz) * self.window_ms / 1e3).round() as usize
    }

    /// Samples between two frames.
    pub fn hop_len(&self) -> usize {
        (f64::from(self.sample_rate_hz) * self.hop_ms / 1e3).round() as usize
    }

    /// Seconds between two frames.
    pub fn hop_s(&self) -> f64 {
        self.hop_len() as f64 / f64::from(self.sample_rate_hz)
    }

    /// Upper edge of the highest band.
    pub fn upper_hz(&self) -> f64 {
        if self.fmax_hz > 0.0 { self.fmax_hz } else { f64::from(self.sample_rate_hz) / 2.0 }
    }

    /// Frames of an utterance of `num_samples` samples: whole hops, as NeMo counts valid frames.
    pub fn num_frames(&self, num_samples: usize) -> usize {
        num_samples / self.hop_len()
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first setting without a meaning.
    pub fn validate(&self) -> Result<(), FeatureError> {
        let nyquist = f64::from(self.sample_rate_hz) / 2.0;
        let fail = |key, value: String, reason: String| Err(FeatureError { key, value, reason });
        if !(1_000..=768_000).contains(&self.sample_rate_hz) {
            return fail(
                "sample_rate_hz",
                self.sample_rate_hz.to_string(),
                "expected 1000 to 768000".into(),
            );
        }
        for (key, ms) in [("window_ms", self.window_ms), ("hop_ms", self.hop_ms)] {
            if !ms.is_finite() || ms <= 0.0 || ms * f64::from(self.sample_rate_hz) < 2e3 {
                return fail(key, ms.to_string(), "expected at least two samples".into());
            }
        }
        if self.n_fft < self.window_len() || self.n_fft > 1 << 16 {
            let reason = format!(
                "expected at least the window's {} samples, at most 65536",
                self.window_len()
            );
            return fail("n_fft", self.n_fft.to_string(), reason);
        }
        if self.n_fft % 2 == 1 {
            return fail("n_fft", self.n_fft.to_string(), "expected an even number".into());
        }
        if self.num_mels == 0 || self.num_mels > self.n_fft / 2 {
            return fail(
                "num_mels",
                self.num_mels.to_string(),
                format!("expected 1 to {}", self.n_fft / 2),
            );
        }
        if !(0.0..1.0).contains(&self.preemphasis) {
            return fail(
                "preemphasis",
                self.preemphasis.to_string(),
                "expected 0 or more, below 1".into(),
            );
        }
        if !(self.fmin_hz >= 0.0 && self.fmin_hz < self.upper_hz()) {
            let reason = format!("expected 0 or more, below {} Hz", self.upper_hz());
            return fail("fmin_hz", self.fmin_hz.to_string(), reason);
        }
        if !(self.upper_hz() <= nyquist && self.fmax_hz >= 0.0) {
            return fail(
                "fmax_hz",
                self.fmax_hz.to_string(),
                format!("expected at most {nyquist} Hz (0 means that)"),
            );
        }
        if !(self.log_guard > 0.0 && self.log_guard <= 1.0) {
            return fail(
                "log_guard",
                self.log_guard.to_string(),
                "expected above 0, at most 1".into(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_field_default() {
        let config = LogMelConfig::default();
        config.validate().unwrap();
        assert_eq!((config.window_len(), config.hop_len()), (400, 160));
        assert_eq!(config.num_frames(16_000), 100);
        assert_eq!(config.num_frames(159), 0);
        let back: LogMelConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(back, config);
    }

    #[test]
    fn a_setting_without_a_meaning_is_named() {
        type Change = fn(&mut LogMelConfig);
        let cases: [(&str, Change); 8] = [
            ("sample_rate_hz", |c| c.sample_rate_hz = 0),
            ("window_ms", |c| c.window_ms = f64::NAN),
            ("hop_ms", |c| c.hop_ms = 0.0),
            ("n_fft", |c| c.n_fft = 256),
            ("num_mels", |c| c.num_mels = 0),
            ("preemphasis", |c| c.preemphasis = 1.0),
            ("fmin_hz", |c| c.fmin_hz = 9_000.0),
            ("fmax_hz", |c| c.fmax_hz = 9_000.0),
        ];
        for (key, change) in cases {
            let mut config = LogMelConfig::default();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().key, key);
        }
    }
}
