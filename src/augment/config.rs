//! The settings of what is done to samples. All of it is off until a manifest or a probability says
//! otherwise.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::AugmentError;

/// What is done to the samples of training utterances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentConfig {
    /// Memory for noises and room responses; what does not fit is read when it is drawn.
    pub cache_audio_mb: usize,
    /// Changes of level.
    pub gain: GainConfig,
    /// Additive noise.
    pub noise: NoiseConfig,
    /// Room impulse responses.
    pub rir: RirConfig,
}

/// Changes of level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GainConfig {
    /// Share of the utterances whose level changes.
    pub probability: f64,
    /// Least gain in decibels.
    pub min_db: f64,
    /// Greatest gain in decibels.
    pub max_db: f64,
}

/// Additive noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NoiseConfig {
    /// Manifests of noises; none is no noise.
    pub manifests: Vec<PathBuf>,
    /// Share of the utterances that get noise.
    pub probability: f64,
    /// Least ratio of the utterance's active power to the noise's, in decibels.
    pub min_snr_db: f64,
    /// Greatest ratio in decibels.
    pub max_snr_db: f64,
}

/// Room impulse responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RirConfig {
    /// Manifests of impulse responses; none is no room.
    pub manifests: Vec<PathBuf>,
    /// Share of the utterances that are put into a room.
    pub probability: f64,
}

impl Default for AugmentConfig {
    fn default() -> AugmentConfig {
        AugmentConfig {
            cache_audio_mb: 256,
            gain: GainConfig::default(),
            noise: NoiseConfig::default(),
            rir: RirConfig::default(),
        }
    }
}

impl Default for GainConfig {
    fn default() -> GainConfig {
        GainConfig { probability: 0.0, min_db: -6.0, max_db: 6.0 }
    }
}

impl Default for NoiseConfig {
    fn default() -> NoiseConfig {
        NoiseConfig { manifests: Vec::new(), probability: 0.5, min_snr_db: 5.0, max_snr_db: 20.0 }
    }
}

impl Default for RirConfig {
    fn default() -> RirConfig {
        RirConfig { manifests: Vec::new(), probability: 0.5 }
    }
}

/// Beyond this no speech or no noise is left in 32-bit floats.
const MAX_DB: f64 = 100.0;

impl AugmentConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first without a meaning.
    pub fn validate(&self) -> Result<(), AugmentError> {
        for (key, probability) in [
            ("augment.gain.probability", self.gain.probability),
            ("augment.noise.probability", self.noise.probability),
            ("augment.rir.probability", self.rir.probability),
        ] {
            if !(0.0..=1.0).contains(&probability) {
                let reason = "expected a share of the utterances, 0 to 1".to_owned();
                return Err(AugmentError::Config { key, value: probability.to_string(), reason });
            }
        }
        for (key, upper_key, least, greatest) in [
            ("augment.gain.min_db", "augment.gain.max_db", self.gain.min_db, self.gain.max_db),
            (
                "augment.noise.min_snr_db",
                "augment.noise.max_snr_db",
                self.noise.min_snr_db,
                self.noise.max_snr_db,
            ),
        ] {
            for (key, db) in [(key, least), (upper_key, greatest)] {
                if !(-MAX_DB..=MAX_DB).contains(&db) {
                    let reason = format!("expected -{MAX_DB} to {MAX_DB} decibels");
                    return Err(AugmentError::Config { key, value: db.to_string(), reason });
                }
            }
            if least > greatest {
                let reason = format!("expected at most {upper_key} = {greatest}");
                return Err(AugmentError::Config { key, value: least.to_string(), reason });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_sound_and_round_trips() {
        let config = AugmentConfig::default();
        config.validate().unwrap();
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<AugmentConfig>(&text).unwrap(), config);
        assert!(toml::from_str::<AugmentConfig>("[noise]\nsnr = 3").is_err());
    }

    #[test]
    fn a_setting_without_a_meaning_is_named() {
        for (text, words) in [
            ("gain.probability = 1.5", "augment.gain.probability = 1.5"),
            ("noise.probability = nan", "augment.noise.probability = NaN"),
            ("rir.probability = -0.1", "augment.rir.probability = -0.1"),
            ("noise.min_snr_db = 30.0", "augment.noise.min_snr_db = 30: expected at most"),
            ("noise.max_snr_db = inf", "augment.noise.max_snr_db = inf"),
            ("gain.min_db = -1e9", "augment.gain.min_db"),
        ] {
            let config: AugmentConfig = toml::from_str(text).unwrap();
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
