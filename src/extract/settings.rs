//! The project's settings as the device's tables and constants. Refused by key: what the device does
//! not compute, and the host does.

use asr_kernels::log_mel::{Band, Edges, Normalize, PreemphasisOver, Settings};

use crate::features::{self, FeatureError, Log, LogMelConfig, Spectrum};

/// How to go on.
const WAY_OUT: &str = "set data.features_on = \"host\"";

/// What the device computes for `config`.
///
/// # Errors
/// Names the first setting without a meaning, or without one on the device.
pub fn settings(config: &LogMelConfig) -> Result<Settings, FeatureError> {
    config.validate()?;
    let refuse = |key, value: String, what: &str| {
        let reason = format!("{what}, which the device does not compute; {WAY_OUT}");
        Err(FeatureError { key, value, reason })
    };
    if config.spectrum != Spectrum::Power {
        return refuse("spectrum", "magnitude".into(), "bands of magnitudes");
    }
    if config.dither != 0.0 {
        return refuse("dither", config.dither.to_string(), "noise in f64 on the samples");
    }
    if config.dynamic_range != 0.0 {
        let what = "a bound from the loudest frame of the utterance";
        return refuse("dynamic_range", config.dynamic_range.to_string(), what);
    }
    if config.output_offset != 0.0 {
        return refuse("output_offset", config.output_offset.to_string(), "an offset");
    }
    let log_factor = match config.log {
        Log::Ln => 1.0,
        Log::Log10 => std::f64::consts::LN_10.recip(),
        Log::Db => 10.0 / std::f64::consts::LN_10,
        Log::None => return refuse("log", "none".into(), "energies themselves"),
    };
    let settings = Settings {
        window: config.window_values().into_iter().map(|w| w * config.input_scale).collect(),
        hop_len: config.hop_len(),
        fft_len: config.n_fft,
        first_sample: i32::try_from(config.first_sample()).unwrap_or(i32::MIN),
        edges: match config.edges {
            features::Edges::Zeros => Edges::Zeros,
            features::Edges::Reflect => Edges::Reflect,
            features::Edges::Mirror => Edges::Mirror,
        },
        remove_dc: config.remove_dc,
        preemphasis: config.preemphasis,
        preemphasis_over: match config.preemphasis_over {
            features::PreemphasisOver::Signal => PreemphasisOver::Signal,
            features::PreemphasisOver::Frame => PreemphasisOver::Frame,
        },
        bands: config.mel_weights().iter().map(|row| Band::of_row(row)).collect(),
        log_guard: config.log_guard,
        log_floor: config.log_floor,
        log_factor: log_factor * config.output_scale,
        normalize: match config.normalize {
            features::Normalize::None => Normalize::None,
            features::Normalize::Mean => Normalize::Mean,
            features::Normalize::PerFeature => Normalize::PerFeature,
        },
    };
    match settings.validate() {
        Ok(()) => Ok(settings),
        Err(asr_kernels::log_mel::SettingsError::FftLen { fft_len }) => {
            refuse("n_fft", fft_len.to_string(), "no power of two from 16 to 4096")
        }
        Err(error) => {
            let (value, reason) = (config.preset.to_string(), format!("{error}; {WAY_OUT}"));
            Err(FeatureError { key: "preset", value, reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{LogMel, Preset};
    use asr_kernels::log_mel::reference;

    fn noise(len: usize) -> Vec<f32> {
        let mut state = 7_u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state as f32 / u32::MAX as f32 - 0.5
        };
        (0..len).map(next).collect()
    }

    /// The device is held to the reference by its own tests; here the tables are held to the host.
    #[test]
    fn what_the_device_computes_is_what_the_host_computes() {
        let (changed, scaled) = (Preset::Nemo.settings(16_000), Preset::Kaldi.settings(8_000));
        let torchaudio = Preset::Torchaudio.settings(16_000);
        let configs = [
            Preset::Nemo.settings(16_000),
            Preset::Kaldi.settings(16_000),
            Preset::Lhotse.settings(16_000),
            Preset::Wenet.settings(8_000),
            Preset::Espnet.settings(16_000),
            LogMelConfig { n_fft: 512, num_mels: 40, ..torchaudio },
            LogMelConfig { normalize: features::Normalize::Mean, log: Log::Log10, ..changed },
            LogMelConfig { output_scale: 0.25, hop_ms: 40.0, ..scaled },
        ];
        for config in configs {
            let settings = settings(&config).unwrap();
            let host = LogMel::new(&config).unwrap();
            for len in [0, 1, 200, 201, 4_567] {
                let samples = noise(len);
                let got = host.compute(&mut host.scratch(), &samples);
                let want = reference::log_mel(&settings, &samples, config.num_frames(len));
                assert_eq!(got.num_frames, want.len());
                for (got, want) in got.data.iter().zip(want.iter().flatten()) {
                    assert!((f64::from(*got) - want).abs() < 1e-4, "{config:?}: {got} {want}");
                }
            }
        }
    }

    #[test]
    fn what_the_device_does_not_compute_is_refused_by_key_with_the_way_out() {
        for (text, key) in [
            ("preset = \"whisper\"", "features.dynamic_range = 8"),
            ("preset = \"speechbrain\"", "features.dynamic_range = 80"),
            ("preset = \"torchaudio\"", "features.n_fft = 400"),
            ("n_fft = 8192", "features.n_fft = 8192"),
            ("dither = 1e-5", "features.dither = 0.00001"),
            ("spectrum = \"magnitude\"", "features.spectrum = magnitude"),
            ("log = \"none\"", "features.log = none"),
            ("output_offset = 1.0", "features.output_offset = 1"),
            ("input_scale = 1e8", "features.preset = nemo"),
        ] {
            let config: LogMelConfig = toml::from_str(text).unwrap();
            let message = settings(&config).unwrap_err().to_string();
            assert!(message.starts_with(key), "{message}");
            assert!(message.contains("data.features_on = \"host\""), "{message}");
        }
        let without_meaning: LogMelConfig = toml::from_str("hop_ms = 0.0").unwrap();
        assert!(settings(&without_meaning).unwrap_err().to_string().contains("hop_ms"));
    }
}
