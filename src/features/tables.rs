//! The tables behind the settings, in f64, for an extractor elsewhere: [`super::LogMel`] is made of the
//! same.

use super::LogMelConfig;
use super::mel::mel_matrix;

impl LogMelConfig {
    /// The window.
    pub fn window_values(&self) -> Vec<f64> {
        self.window.values(self.window_len())
    }

    /// The weights of the mel bands, `[num_mels][n_fft / 2 + 1]`.
    pub fn mel_weights(&self) -> Vec<Vec<f64>> {
        mel_matrix(self)
    }

    /// The sample that the first frame's window begins with; it may lie before the signal.
    pub fn first_sample(&self) -> isize {
        self.framing.first_sample(self.window_len(), self.hop_len(), self.n_fft)
    }

    /// As many samples as no utterance of `num_frames` frames exceeds.
    pub fn most_samples(&self, num_frames: usize) -> usize {
        num_frames * self.hop_len() + self.window_len().max(self.hop_len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    #[test]
    fn no_utterance_has_more_samples_than_its_frames_allow() {
        for preset in Preset::ALL {
            for (window_ms, hop_ms) in [(25.0, 10.0), (10.0, 25.0), (8.0, 8.0)] {
                let config = LogMelConfig { window_ms, hop_ms, ..preset.settings(16_000) };
                for len in (0..3_000).chain([16_000, 99_999]) {
                    let most = config.most_samples(config.num_frames(len));
                    assert!(len <= most, "{preset}, {window_ms} ms, {hop_ms} ms: {len} > {most}");
                }
            }
        }
    }
}
