//! The settings of the features, resolved: every value that a preset left open is filled in, so that
//! what is saved with a run says by itself what its features are, whatever a later version makes of
//! the preset's name. What was saved before there were presets reads as `nemo`.
//!
//! Refused: settings without a meaning, by key, see [`LogMelConfig::validate`].

use serde::{Deserialize, Serialize};

use super::framing::Framing;
use super::mel::{MelNorm, MelScale, MelTriangles};
use super::preset::Preset;
use super::window::Window;

/// What lies before the first and behind the last sample, for frames that reach there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edges {
    /// Zeros.
    Zeros,
    /// The signal reflected at its first and last sample, which are not repeated.
    Reflect,
    /// The signal mirrored beside its first and last sample, which are repeated (Kaldi's way).
    Mirror,
}

/// What the pre-emphasis filter runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreemphasisOver {
    /// The signal; its first sample is kept.
    Signal,
    /// Each frame by itself; its first sample is taken to follow itself.
    Frame,
}

/// What the mel bands gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spectrum {
    /// Squared magnitudes.
    Power,
    /// Magnitudes.
    Magnitude,
}

/// The compression of the mel energies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Log {
    /// Natural logarithm.
    Ln,
    /// Decimal logarithm.
    Log10,
    /// Decibels, `10 log10`.
    Db,
    /// None: the energies themselves.
    None,
}

/// How the log-mel values of one utterance are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalize {
    /// Each band to mean 0 and (unbiased) deviation 1 over the frames of its utterance.
    PerFeature,
    /// Each band to mean 0 over the frames of its utterance: Kaldi's `apply-cmvn` and ESPnet's
    /// `utterance_mvn` as they come.
    Mean,
    /// Left as they are.
    None,
}

/// Declares the resolved settings together with what a file may say of them: the same keys, each of
/// them optional.
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct LogMelConfig {
            $($(#[$doc:meta])* pub $field:ident: $kind:ty,)*
        }
    ) => {
        $(#[$about])*
        pub struct LogMelConfig {
            /// The toolkit whose convention the other settings follow where they are not set.
            pub preset: Preset,
            $($(#[$doc])* pub $field: $kind,)*
        }

        /// The keys of a file; serde's errors name them.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Settings {
            preset: Option<Preset>,
            $($field: Option<$kind>,)*
        }

        impl Settings {
            fn over(self, base: LogMelConfig) -> LogMelConfig {
                LogMelConfig {
                    preset: base.preset,
                    $($field: self.$field.unwrap_or(base.$field),)*
                }
            }
        }
    };
}

settings! {
    /// A mel spectrogram: one [`Preset`] and what was changed of it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(from = "Settings")]
    pub struct LogMelConfig {
        /// Sample rate of the audio.
        pub sample_rate_hz: u32,
        /// Length of the window. Fractions of a sample are cut off.
        pub window_ms: f64,
        /// Distance between frames. Fractions of a sample are cut off.
        pub hop_ms: f64,
        /// Length of the Fourier transform, at least the window's.
        pub n_fft: usize,
        /// Shape of the window.
        pub window: Window,
        /// Where the frames lie.
        pub framing: Framing,
        /// What frames see outside the signal.
        pub edges: Edges,
        /// Factor on the samples, which are read as -1 to 1.
        pub input_scale: f64,
        /// Deviation of the normal noise that is added to scaled samples in training, never in
        /// evaluation; 0 adds none.
        pub dither: f64,
        /// Whether each frame's mean is taken off.
        pub remove_dc: bool,
        /// Coefficient of the pre-emphasis filter; 0 switches it off.
        pub preemphasis: f64,
        /// What the pre-emphasis filter runs over.
        pub preemphasis_over: PreemphasisOver,
        /// What the mel bands gather.
        pub spectrum: Spectrum,
        /// Mel bands.
        pub num_mels: usize,
        /// The mel scale.
        pub mel_scale: MelScale,
        /// The shape of the bands.
        pub mel_triangles: MelTriangles,
        /// The height of the bands.
        pub mel_norm: MelNorm,
        /// Lower edge of the lowest band.
        pub fmin_hz: f64,
        /// Upper edge of the highest band; 0 and below count from half the sample rate.
        pub fmax_hz: f64,
        /// The logarithm.
        pub log: Log,
        /// Added to the mel energies before the logarithm.
        pub log_guard: f64,
        /// The least mel energy that the logarithm sees.
        pub log_floor: f64,
        /// Values further below the greatest of the utterance are raised to this distance, in units of
        /// the logarithm; 0 leaves them. It makes features depend on the utterance's loudest frame.
        pub dynamic_range: f64,
        /// Added behind the logarithm.
        pub output_offset: f64,
        /// Factor behind that.
        pub output_scale: f64,
        /// Normalisation of each utterance.
        pub normalize: Normalize,
    }
}

impl Default for LogMelConfig {
    fn default() -> LogMelConfig {
        Preset::default().settings(Preset::SAMPLE_RATE_HZ)
    }
}

impl From<Settings> for LogMelConfig {
    fn from(settings: Settings) -> LogMelConfig {
        let preset = settings.preset.unwrap_or_default();
        let mut base = preset.settings(settings.sample_rate_hz.unwrap_or(Preset::SAMPLE_RATE_HZ));
        if let Some(window_ms) = settings.window_ms {
            base.window_ms = window_ms;
            base.n_fft = preset.n_fft(base.window_len());
        }
        settings.over(base)
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

/// The longest transform, window and hop.
const MAX_N_FFT: usize = 1 << 16;

impl LogMelConfig {
    /// Samples in a window.
    pub fn window_len(&self) -> usize {
        self.whole_samples(self.window_ms)
    }

    /// Samples between two frames.
    pub fn hop_len(&self) -> usize {
        self.whole_samples(self.hop_ms)
    }

    /// Kaldi, NeMo and Lhotse cut fractions off. The margin is for lengths that were given in samples
    /// and went through milliseconds.
    fn whole_samples(&self, ms: f64) -> usize {
        (f64::from(self.sample_rate_hz) * ms / 1e3 + 1e-6).floor() as usize
    }

    /// Seconds between two frames.
    pub fn hop_s(&self) -> f64 {
        self.hop_len() as f64 / f64::from(self.sample_rate_hz)
    }

    /// Half the sample rate.
    fn nyquist_hz(&self) -> f64 {
        f64::from(self.sample_rate_hz) / 2.0
    }

    /// Upper edge of the highest band.
    pub fn upper_hz(&self) -> f64 {
        if self.fmax_hz > 0.0 { self.fmax_hz } else { self.nyquist_hz() + self.fmax_hz }
    }

    /// Frames of an utterance of `num_samples` samples, exactly as the preset's toolkit counts them.
    pub fn num_frames(&self, num_samples: usize) -> usize {
        // There is nothing to reflect.
        if num_samples == 0 && self.edges != Edges::Zeros {
            return 0;
        }
        self.framing.num_frames(num_samples, self.window_len(), self.hop_len())
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first setting without a meaning.
    pub fn validate(&self) -> Result<(), FeatureError> {
        let rate_hz = self.sample_rate_hz;
        require(
            (1_000..=768_000).contains(&rate_hz),
            "sample_rate_hz",
            f64::from(rate_hz),
            "expected 1000 to 768000",
        )?;
        for (key, ms) in [("window_ms", self.window_ms), ("hop_ms", self.hop_ms)] {
            let samples = ms * f64::from(rate_hz) / 1e3;
            let is_length = (2.0..=MAX_N_FFT as f64).contains(&samples);
            require(is_length, key, ms, format!("expected 2 to {MAX_N_FFT} samples"))?;
        }
        let window_len = self.window_len();
        let n_fft = self.n_fft as f64;
        require(
            (window_len..=MAX_N_FFT).contains(&self.n_fft),
            "n_fft",
            n_fft,
            format!("expected at least the window's {window_len} samples, at most {MAX_N_FFT}"),
        )?;
        require(self.n_fft.is_multiple_of(2), "n_fft", n_fft, "expected an even number")?;
        let most = self.n_fft / 2;
        let has_bands = (1..=most).contains(&self.num_mels);
        require(has_bands, "num_mels", self.num_mels as f64, format!("expected 1 to {most}"))?;
        self.validate_signal()?;
        self.validate_bands()?;
        self.validate_compression()
    }

    fn validate_signal(&self) -> Result<(), FeatureError> {
        let scale = self.input_scale;
        require(
            (1e-6..=1e9).contains(&scale),
            "input_scale",
            scale,
            "expected 1 for samples from -1 to 1, 32768 for the range of 16-bit integers",
        )?;
        let is_noise = self.dither.is_finite() && self.dither >= 0.0;
        require(is_noise, "dither", self.dither, "expected 0 or a small deviation")?;
        let c = self.preemphasis;
        require((0.0..1.0).contains(&c), "preemphasis", c, "expected 0 or more, below 1")
    }

    fn validate_bands(&self) -> Result<(), FeatureError> {
        let (low, high, nyquist) = (self.fmin_hz, self.upper_hz(), self.nyquist_hz());
        require(
            high > 0.0 && high <= nyquist,
            "fmax_hz",
            self.fmax_hz,
            format!("expected at most {nyquist} Hz; 0 and below count from there"),
        )?;
        let is_below = low >= 0.0 && low < high;
        require(is_below, "fmin_hz", low, format!("expected 0 or more, below {high} Hz"))
    }

    fn validate_compression(&self) -> Result<(), FeatureError> {
        let (guard, floor) = (self.log_guard, self.log_floor);
        require((0.0..=1.0).contains(&guard), "log_guard", guard, "expected 0 to 1")?;
        let is_floor = floor.is_finite() && floor >= 0.0;
        require(is_floor, "log_floor", floor, "expected 0 or more")?;
        // A float32 holds no less than 1e-38 in full precision.
        require(
            self.log == Log::None || guard.max(floor) >= 1e-30,
            "log_floor",
            floor,
            format!(
                "with log_guard = {guard}, silence would be minus infinity; expected 1e-10, say"
            ),
        )?;
        let range = self.dynamic_range;
        let is_range = range.is_finite() && range >= 0.0;
        require(is_range, "dynamic_range", range, "expected 0 (unlimited) or more")?;
        let (offset, scale) = (self.output_offset, self.output_scale);
        require(offset.is_finite(), "output_offset", offset, "expected a finite number")?;
        let is_factor = scale.is_finite() && scale != 0.0;
        require(is_factor, "output_scale", scale, "expected a number other than 0")
    }
}

fn require(
    is_met: bool,
    key: &'static str,
    value: f64,
    reason: impl Into<String>,
) -> Result<(), FeatureError> {
    if is_met {
        return Ok(());
    }
    Err(FeatureError { key, value: value.to_string(), reason: reason.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> LogMelConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_default_is_the_field_default() {
        let config = LogMelConfig::default();
        config.validate().unwrap();
        assert_eq!((config.window_len(), config.hop_len()), (400, 160));
        assert_eq!(config.num_frames(16_000), 100);
        assert_eq!(config.num_frames(159), 0);
    }

    #[test]
    fn every_preset_reads_back_as_itself_whole() {
        for preset in Preset::ALL {
            let config = read(&format!("preset = \"{preset}\""));
            assert_eq!(config, preset.settings(16_000));
            let text = toml::to_string(&config).unwrap();
            assert_eq!(read(&text), config);
            // A saved config does not lean on the preset: under another name it is the same features.
            let renamed = text.replace(&format!("\"{preset}\""), "\"espnet\"");
            assert_eq!(LogMelConfig { preset, ..read(&renamed) }, config);
        }
    }

    #[test]
    fn what_was_saved_before_presets_reads_as_nemo() {
        let old = "sample_rate_hz = 16000\nwindow_ms = 25.0\nhop_ms = 10.0\nn_fft = 512\n\
                   num_mels = 80\npreemphasis = 0.97\nfmin_hz = 0.0\nfmax_hz = 0.0\n\
                   log_guard = 0.00000005960464477539063\nnormalize = \"per_feature\"\n";
        assert_eq!(read(old), LogMelConfig::default());
        assert_eq!(read(""), LogMelConfig::default());
    }

    #[test]
    fn a_key_that_is_set_wins_over_the_preset_and_the_others_keep_its_values() {
        let config = read("preset = \"kaldi\"\nnum_mels = 40\nframing = \"rounded\"");
        assert_eq!(
            config,
            LogMelConfig {
                num_mels: 40,
                framing: Framing::Rounded,
                ..Preset::Kaldi.settings(16_000)
            }
        );
    }

    #[test]
    fn the_transform_follows_rate_and_window_unless_set() {
        assert_eq!(read("preset = \"kaldi\"\nsample_rate_hz = 8000").n_fft, 256);
        assert_eq!(read("preset = \"kaldi\"\nwindow_ms = 40.0").n_fft, 1024);
        assert_eq!(read("preset = \"kaldi\"\nwindow_ms = 40.0\nn_fft = 2048").n_fft, 2048);
        assert_eq!(read("sample_rate_hz = 8000").n_fft, 512);
        let whisper = read("preset = \"whisper\"\nsample_rate_hz = 22050");
        assert_eq!((whisper.window_len(), whisper.hop_len()), (400, 160));
        for rate_hz in [8_000, 11_025, 16_000, 22_050, 44_100, 48_000] {
            for preset in Preset::ALL {
                read(&format!("preset = \"{preset}\"\nsample_rate_hz = {rate_hz}"))
                    .validate()
                    .unwrap();
            }
        }
    }

    #[test]
    fn unknown_keys_and_presets_are_refused_with_what_is_known() {
        let message = |text: &str| toml::from_str::<LogMelConfig>(text).unwrap_err().to_string();
        let unknown = message("num_mel = 3");
        assert!(unknown.contains("unknown field `num_mel`"), "{unknown}");
        assert!(unknown.contains("`num_mels`") && unknown.contains("`preset`"), "{unknown}");
        let unknown = message("preset = \"htk\"");
        assert!(unknown.contains("`kaldi`") && unknown.contains("`whisper`"), "{unknown}");
    }

    #[test]
    fn a_setting_without_a_meaning_is_named() {
        type Change = fn(&mut LogMelConfig);
        let cases: [(&str, Change); 21] = [
            ("sample_rate_hz", |c| c.sample_rate_hz = 0),
            ("window_ms", |c| c.window_ms = f64::NAN),
            ("window_ms", |c| c.window_ms = f64::INFINITY),
            ("hop_ms", |c| c.hop_ms = 0.0),
            ("n_fft", |c| c.n_fft = 256),
            ("n_fft", |c| c.n_fft = 513),
            ("window_ms", |c| c.window_ms = 1e9),
            ("hop_ms", |c| c.hop_ms = 1e9),
            ("num_mels", |c| c.num_mels = 0),
            ("num_mels", |c| c.num_mels = 257),
            ("preemphasis", |c| c.preemphasis = 1.0),
            ("input_scale", |c| c.input_scale = 0.0),
            ("dither", |c| c.dither = -1.0),
            ("fmin_hz", |c| c.fmin_hz = 9_000.0),
            ("fmax_hz", |c| c.fmax_hz = 9_000.0),
            ("fmax_hz", |c| c.fmax_hz = -8_000.0),
            ("log_guard", |c| c.log_guard = f64::NAN),
            ("log_floor", |c| c.log_guard = 0.0),
            ("dynamic_range", |c| c.dynamic_range = f64::INFINITY),
            ("output_offset", |c| c.output_offset = f64::NAN),
            ("output_scale", |c| c.output_scale = 0.0),
        ];
        for (key, change) in cases {
            let mut config = LogMelConfig::default();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().key, key);
        }
    }
}
