//! The settings of the data.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::DataError;
use crate::audio::{Channel, ReadOptions, Resample};
use crate::text::Normalizer;

/// What to do with an utterance whose transcript is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmptyText {
    /// Keep it: CTC learns silence from it.
    #[default]
    Keep,
    /// Leave it out, counted.
    Drop,
    /// Stop.
    Error,
}

/// What to do when a manifest's duration is not that of the audio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurationMismatch {
    /// Stop: the audio or the transcript is most likely another's.
    #[default]
    Error,
    /// Count it and trust the audio.
    Warn,
}

/// Where log-mel features are computed. It changes them by rounding alone, and is no part of what they
/// are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeaturesOn {
    /// On the threads that prepare batches.
    #[default]
    Host,
    /// On the GPU that the model is on; on a CPU this is the host.
    Device,
}

/// Which recordings, and how they become batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Manifests to train on.
    pub train: Vec<PathBuf>,
    /// Manifests to validate on.
    pub dev: Vec<PathBuf>,
    /// Manifests to measure on.
    pub test: Vec<PathBuf>,
    /// The channel of recordings with several: `"mono"`, `"mix"` or a number.
    pub channel: Channel,
    /// Whether other sample rates are converted: `"error"` or `"allow"`.
    pub resample: Resample,
    /// Applied to every transcript.
    pub normalizer: Normalizer,
    /// Shorter utterances are dropped.
    pub min_duration_s: f64,
    /// Longer utterances are dropped.
    pub max_duration_s: f64,
    /// Bound of a batch: its longest utterance times their number.
    pub batch_s: f64,
    /// Makes long utterances count for more: one of `d` seconds counts as `d + d * d / this`, since
    /// attention's memory grows with the square. 0 counts plain seconds.
    pub quadratic_duration_s: f64,
    /// Bound of the number of utterances in a batch.
    pub max_batch_utterances: usize,
    /// Length buckets, each with one padded length.
    pub num_buckets: usize,
    /// Speeds of which each training utterance draws one an epoch.
    pub speeds: Vec<f64>,
    /// Empty transcripts.
    pub empty_text: EmptyText,
    /// Durations that disagree with the audio.
    pub duration_mismatch: DurationMismatch,
    /// Training recordings that cannot be read any more during the run are left out, named and counted;
    /// more than this percentage of them (and more than one) ends the run.
    pub max_bad_percent: f64,
    /// Where features are computed: `"host"` or `"device"`, which moves samples to the GPU instead.
    pub features_on: FeaturesOn,
    /// Threads that prepare batches; 0 is one a core, at most 8.
    pub workers: usize,
    /// Batches made ready ahead.
    pub prefetch_batches: usize,
    /// Memory for decoded audio.
    pub cache_audio_mb: usize,
    /// Memory for recordings read ahead from tar files. These are read in sequence, file by file in an
    /// order drawn each epoch, and shuffled within half of this memory. 0 reads each by its place when its
    /// batch comes, which shuffles over the whole set and suits files that the disk cache holds.
    pub tar_buffer_mb: usize,
}

impl Default for DataConfig {
    fn default() -> DataConfig {
        DataConfig {
            train: Vec::new(),
            dev: Vec::new(),
            test: Vec::new(),
            channel: Channel::MonoOnly,
            resample: Resample::Error,
            normalizer: Normalizer::None,
            min_duration_s: 0.1,
            max_duration_s: 30.0,
            batch_s: 120.0,
            quadratic_duration_s: 0.0,
            max_batch_utterances: 128,
            num_buckets: 6,
            speeds: vec![1.0],
            empty_text: EmptyText::Keep,
            duration_mismatch: DurationMismatch::Error,
            max_bad_percent: 1.0,
            features_on: FeaturesOn::Host,
            workers: 0,
            prefetch_batches: 4,
            cache_audio_mb: 512,
            tar_buffer_mb: 512,
        }
    }
}

impl DataConfig {
    /// How recordings are read for features at this rate.
    pub fn read_options(&self, sample_rate_hz: u32) -> ReadOptions {
        ReadOptions { sample_rate_hz, channel: self.channel, resample: self.resample }
    }

    /// The same without anything that would leave utterances out: an error rate over the utterances
    /// one likes is no error rate.
    pub fn for_evaluation(&self) -> DataConfig {
        let empty_text =
            if self.empty_text == EmptyText::Drop { EmptyText::Keep } else { self.empty_text };
        DataConfig { min_duration_s: 0.0, max_duration_s: 1e6, empty_text, ..self.clone() }
    }

    /// What an utterance of this length counts for in a batch.
    pub fn counted_s(&self, duration_s: f64) -> f64 {
        if self.quadratic_duration_s > 0.0 {
            duration_s + duration_s * duration_s / self.quadratic_duration_s
        } else {
            duration_s
        }
    }

    /// Training recordings of `total` that may be found unreadable during a run.
    pub fn max_bad(&self, total: usize) -> usize {
        (self.max_bad_percent / 100.0 * total as f64).ceil() as usize
    }

    /// Bytes of recordings in tar files that are shuffled together: while one half of the memory is
    /// used up, the other is read.
    pub fn window_bytes(&self) -> u64 {
        (self.tar_buffer_mb as u64) << 19
    }

    /// Threads that prepare batches.
    pub fn num_workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if self.workers > 0 { self.workers } else { cores.min(8) }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first without a meaning.
    pub fn validate(&self) -> Result<(), DataError> {
        let fail = |key, value: String, reason: &str| {
            Err(DataError::Config { key, value, reason: reason.into() })
        };
        if !(self.min_duration_s.is_finite() && self.min_duration_s >= 0.0) {
            return fail("min_duration_s", self.min_duration_s.to_string(), "expected 0 or more");
        }
        if !(self.max_duration_s.is_finite() && self.max_duration_s > self.min_duration_s) {
            return fail(
                "max_duration_s",
                self.max_duration_s.to_string(),
                "expected more than data.min_duration_s",
            );
        }
        if !(self.batch_s.is_finite() && self.batch_s > 0.0) {
            return fail("batch_s", self.batch_s.to_string(), "expected padded seconds above 0");
        }
        if !(self.quadratic_duration_s.is_finite() && self.quadratic_duration_s >= 0.0) {
            return fail(
                "quadratic_duration_s",
                self.quadratic_duration_s.to_string(),
                "expected seconds, 0 or more (0 counts plain seconds)",
            );
        }
        if !(0.0..=100.0).contains(&self.max_bad_percent) {
            return fail("max_bad_percent", self.max_bad_percent.to_string(), "expected 0 to 100");
        }
        let counts = [
            ("max_batch_utterances", self.max_batch_utterances),
            ("num_buckets", self.num_buckets),
            ("prefetch_batches", self.prefetch_batches),
        ];
        for (key, count) in counts {
            if count == 0 {
                return fail(key, "0".into(), "expected at least 1");
            }
        }
        if self.speeds.is_empty() || !self.speeds.iter().all(|speed| (0.5..=2.0).contains(speed)) {
            return fail(
                "speeds",
                format!("{:?}", self.speeds),
                "expected at least one speed, each 0.5 to 2",
            );
        }
        if self.workers > 1_024 {
            return fail(
                "workers",
                self.workers.to_string(),
                "expected at most 1024 threads (0 chooses)",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_sound_and_round_trips() {
        let config = DataConfig::default();
        config.validate().unwrap();
        assert_eq!(
            toml::from_str::<DataConfig>(&toml::to_string(&config).unwrap()).unwrap(),
            config
        );
        assert!(toml::from_str::<DataConfig>("batch_sec = 3").is_err());
    }

    #[test]
    fn evaluation_leaves_nothing_out() {
        let config =
            DataConfig { empty_text: EmptyText::Drop, ..DataConfig::default() }.for_evaluation();
        config.validate().unwrap();
        assert_eq!((config.min_duration_s, config.empty_text), (0.0, EmptyText::Keep));
        assert!(config.max_duration_s > 1e5);
    }

    #[test]
    fn long_utterances_count_for_more_and_a_share_of_few_is_one() {
        let plain = DataConfig::default();
        let quadratic = DataConfig { quadratic_duration_s: 20.0, ..plain.clone() };
        assert_eq!((plain.counted_s(20.0), quadratic.counted_s(20.0)), (20.0, 40.0));
        assert_eq!([0, 1, 23, 250].map(|total| plain.max_bad(total)), [0, 1, 1, 3]);
        assert_eq!(DataConfig { max_bad_percent: 0.0, ..plain }.max_bad(1_000), 0);
    }

    #[test]
    fn a_setting_without_a_meaning_is_named() {
        for (text, key) in [
            ("min_duration_s = -1.0", "min_duration_s"),
            ("max_duration_s = 0.05", "max_duration_s"),
            ("batch_s = nan", "batch_s"),
            ("num_buckets = 0", "num_buckets"),
            ("speeds = []", "speeds"),
            ("speeds = [1.0, 0.0]", "speeds"),
            ("prefetch_batches = 0", "prefetch_batches"),
            ("quadratic_duration_s = -1.0", "quadratic_duration_s"),
            ("max_bad_percent = 101.0", "max_bad_percent"),
        ] {
            let config: DataConfig = toml::from_str(text).unwrap();
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
