//! The conventions of eight toolkits, each as its own source defines it; the goldens of this module's
//! tests hold every one to its toolkit's output. Lengths that a toolkit gives in samples stay so at
//! every rate.
//!
//! Two things are the same in all: no dither unless it is set (Kaldi's own default is 1 on the scale
//! of 16-bit integers, NeMo's 1e-5; Kaldi also dithers what it evaluates, which nothing here does, so
//! that a stretch of zeros would be one thing in training and another in evaluation), and no
//! normalisation over a corpus.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::config::{Edges, Log, LogMelConfig, Normalize, PreemphasisOver, Spectrum};
use super::framing::Framing;
use super::mel::{MelNorm, MelScale, MelTriangles};
use super::window::Window;

/// A toolkit's convention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// NeMo's `AudioToMelSpectrogramPreprocessor` as its Conformer recipes set it (80 bands, 25 ms), and
    /// Hugging Face's `ParakeetFeatureExtractor`. Frames see zeros outside the signal, as NeMo has had
    /// it since 2025; before, it reflected.
    #[default]
    Nemo,
    /// Kaldi's `compute-fbank-feats` and `kaldi-native-fbank`, 23 bands; and, with
    /// `input_scale = 1`, `torchaudio.compliance.kaldi.fbank`.
    Kaldi,
    /// Lhotse's `Fbank`, which icefall trains on: Kaldi's, but of samples from -1 to 1, up to 400 Hz
    /// below half the rate, with all frames; 80 bands.
    Lhotse,
    /// WeNet's `compute_fbank`: Kaldi's, with the 80 bands of its recipes.
    Wenet,
    /// Whisper's `log_mel_spectrogram` of an utterance as it is, not padded to 30 s. Its values depend
    /// on the loudest frame of the utterance: nothing lies more than 8 decades below that.
    Whisper,
    /// torchaudio's `MelSpectrogram` (128 bands, hop of 200) followed by its `AmplitudeToDB`, which
    /// `log = "none"` leaves out.
    Torchaudio,
    /// ESPnet 2's `DefaultFrontend`, without its normalisation.
    Espnet,
    /// SpeechBrain's `Fbank`, 40 bands. Its values depend on the loudest frame of the utterance:
    /// nothing lies more than 80 dB below that.
    Speechbrain,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Preset; 8] = [
        Preset::Nemo,
        Preset::Kaldi,
        Preset::Lhotse,
        Preset::Wenet,
        Preset::Whisper,
        Preset::Torchaudio,
        Preset::Espnet,
        Preset::Speechbrain,
    ];

    /// The rate where none is set.
    pub(super) const SAMPLE_RATE_HZ: u32 = 16_000;

    /// The complete settings at a sample rate.
    pub fn settings(self, sample_rate_hz: u32) -> LogMelConfig {
        let samples = |len: u32| f64::from(len) * 1e3 / f64::from(sample_rate_hz);
        let base = LogMelConfig {
            preset: self,
            sample_rate_hz,
            window_ms: 25.0,
            hop_ms: 10.0,
            n_fft: 0,
            window: Window::Hann,
            framing: Framing::Hops,
            edges: Edges::Zeros,
            input_scale: 1.0,
            dither: 0.0,
            remove_dc: false,
            preemphasis: 0.0,
            preemphasis_over: PreemphasisOver::Signal,
            spectrum: Spectrum::Power,
            num_mels: 80,
            mel_scale: MelScale::Slaney,
            mel_triangles: MelTriangles::Hz,
            mel_norm: MelNorm::Slaney,
            fmin_hz: 0.0,
            fmax_hz: 0.0,
            log: Log::Ln,
            log_guard: 0.0,
            log_floor: 1e-10,
            dynamic_range: 0.0,
            output_offset: 0.0,
            output_scale: 1.0,
            normalize: Normalize::None,
        };
        let settings = match self {
            Preset::Nemo => LogMelConfig {
                preemphasis: 0.97,
                log_guard: 2_f64.powi(-24),
                log_floor: 0.0,
                normalize: Normalize::PerFeature,
                ..base
            },
            Preset::Kaldi => LogMelConfig { num_mels: 23, ..kaldi(base) },
            Preset::Lhotse => LogMelConfig {
                input_scale: 1.0,
                framing: Framing::Rounded,
                fmax_hz: -400.0,
                ..kaldi(base)
            },
            Preset::Wenet => kaldi(base),
            Preset::Whisper => LogMelConfig {
                window_ms: samples(400),
                hop_ms: samples(160),
                window: Window::HannPeriodic,
                edges: Edges::Reflect,
                fmax_hz: if sample_rate_hz >= 16_000 { 8_000.0 } else { 0.0 },
                log: Log::Log10,
                dynamic_range: 8.0,
                output_offset: 4.0,
                output_scale: 0.25,
                ..base
            },
            Preset::Torchaudio => LogMelConfig {
                window_ms: samples(400),
                hop_ms: samples(200),
                window: Window::HannPeriodic,
                framing: Framing::Centers,
                edges: Edges::Reflect,
                num_mels: 128,
                mel_scale: MelScale::Htk,
                mel_norm: MelNorm::None,
                log: Log::Db,
                ..base
            },
            Preset::Espnet => LogMelConfig {
                window_ms: samples(512),
                hop_ms: samples(128),
                window: Window::HannPeriodic,
                framing: Framing::Centers,
                edges: Edges::Reflect,
                ..base
            },
            Preset::Speechbrain => LogMelConfig {
                window: Window::HammingPeriodic,
                framing: Framing::Centers,
                num_mels: 40,
                mel_scale: MelScale::Htk,
                mel_triangles: MelTriangles::Symmetric,
                mel_norm: MelNorm::None,
                log: Log::Db,
                dynamic_range: 80.0,
                ..base
            },
        };
        LogMelConfig { n_fft: self.n_fft(settings.window_len()), ..settings }
    }

    /// The transform for a window, where none is set.
    pub(super) fn n_fft(self, window_len: usize) -> usize {
        // Absurd windows are refused later, by name.
        let window_len = window_len.min(1 << 20);
        match self {
            Preset::Nemo => window_len.next_power_of_two().max(512),
            Preset::Kaldi | Preset::Lhotse | Preset::Wenet => window_len.next_power_of_two(),
            Preset::Whisper | Preset::Torchaudio | Preset::Speechbrain => {
                window_len.next_multiple_of(2).max(400)
            }
            Preset::Espnet => window_len.next_multiple_of(2).max(512),
        }
    }
}

/// What Kaldi's followers share.
fn kaldi(base: LogMelConfig) -> LogMelConfig {
    LogMelConfig {
        window: Window::Povey,
        framing: Framing::Snip,
        edges: Edges::Mirror,
        input_scale: 32_768.0,
        remove_dc: true,
        preemphasis: 0.97,
        preemphasis_over: PreemphasisOver::Frame,
        mel_scale: MelScale::Htk,
        mel_triangles: MelTriangles::Mel,
        mel_norm: MelNorm::None,
        fmin_hz: 20.0,
        log_floor: f64::from(f32::EPSILON),
        ..base
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Preset::Nemo => "nemo",
            Preset::Kaldi => "kaldi",
            Preset::Lhotse => "lhotse",
            Preset::Wenet => "wenet",
            Preset::Whisper => "whisper",
            Preset::Torchaudio => "torchaudio",
            Preset::Espnet => "espnet",
            Preset::Speechbrain => "speechbrain",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_a_meaning_and_the_sizes_of_its_toolkit() {
        let sizes = [
            // Window, hop, transform, bands, frames of 1 s, of 399 samples, of 400, of 79, of 80.
            (400, 160, 512, 80, [100, 2, 2, 0, 0]),
            (400, 160, 512, 23, [98, 0, 1, 0, 0]),
            (400, 160, 512, 80, [100, 2, 3, 0, 1]),
            (400, 160, 512, 80, [98, 0, 1, 0, 0]),
            (400, 160, 400, 80, [100, 2, 2, 0, 0]),
            (400, 200, 400, 128, [81, 2, 3, 1, 1]),
            (512, 128, 512, 80, [126, 4, 4, 1, 1]),
            (400, 160, 400, 40, [101, 3, 3, 1, 1]),
        ];
        for (preset, (window, hop, n_fft, num_mels, frames)) in Preset::ALL.into_iter().zip(sizes) {
            let config = preset.settings(16_000);
            config.validate().unwrap();
            assert_eq!((config.window_len(), config.hop_len()), (window, hop), "{preset}");
            assert_eq!((config.n_fft, config.num_mels), (n_fft, num_mels), "{preset}");
            let lens = [16_000, 399, 400, 79, 80];
            assert_eq!(lens.map(|len| config.num_frames(len)), frames, "{preset}");
            // SpeechBrain sees a frame of zeros.
            let of_nothing = usize::from(preset == Preset::Speechbrain);
            assert_eq!(config.num_frames(0), of_nothing, "{preset}");
            assert_eq!(config.dither, 0.0, "{preset}");
        }
    }
}
