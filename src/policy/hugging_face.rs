//! The small files of a Hugging Face directory: `config.json`, `preprocessor_config.json` and what a
//! processor needs, read and written as `ParakeetForCTC` of transformers 5 does.
//!
//! Keys that a file leaves out have that library's defaults. Refused by key: sizes that this model does
//! not have, and features that `ParakeetFeatureExtractor` cannot compute.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thiserror::Error;

use crate::features::{LogMelConfig, Preset};
use crate::model::{ConvNorm, Encoder, ModelConfig};
use crate::tokens::{Tokens, TokensError};

/// The rate that `ParakeetProcessor` takes when it is not told another.
pub(super) const PARAKEET_RATE_HZ: u32 = 16_000;

/// A Hugging Face file that cannot be read, or describes another kind of model.
#[derive(Debug, Error)]
pub enum HuggingFaceError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{}: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// This model has no such part or size.
    #[error("{}: {key} = {value}, and {expected}; use another checkpoint", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The key in it.
        key: &'static str,
        /// Its value.
        value: String,
        /// What this program has.
        expected: String,
    },
}

/// Which of Parakeet's models a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Kind {
    #[serde(rename = "parakeet_ctc")]
    Ctc,
    #[serde(rename = "parakeet_encoder")]
    Encoder,
    #[serde(rename = "parakeet_rnnt")]
    Rnnt,
    #[serde(rename = "parakeet_tdt")]
    Tdt,
}

/// What `config.json` says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    pub kind: Kind,
    pub model: ModelConfig,
    pub features: LogMelConfig,
    /// The blank, for [`Kind::Ctc`].
    pub blank: Option<usize>,
}

#[derive(Deserialize)]
struct KindOnly {
    model_type: Kind,
}

#[derive(Deserialize)]
#[serde(default)]
struct CtcConfig {
    vocab_size: usize,
    pad_token_id: Option<usize>,
    encoder_config: EncoderConfig,
}

impl Default for CtcConfig {
    fn default() -> Self {
        let encoder_config = EncoderConfig::default();
        Self { vocab_size: 1_025, pad_token_id: Some(1_024), encoder_config }
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct EncoderConfig {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: String,
    attention_bias: bool,
    convolution_bias: bool,
    conv_kernel_size: usize,
    subsampling_factor: usize,
    subsampling_conv_channels: usize,
    num_mel_bins: usize,
    subsampling_conv_kernel_size: usize,
    subsampling_conv_stride: usize,
    scale_input: bool,
}

impl Default for EncoderConfig {
    fn default() -> Self {
        Self {
            hidden_size: 1_024,
            num_hidden_layers: 24,
            num_attention_heads: 8,
            intermediate_size: 4_096,
            hidden_act: "silu".to_owned(),
            attention_bias: true,
            convolution_bias: true,
            conv_kernel_size: 9,
            subsampling_factor: 8,
            subsampling_conv_channels: 256,
            num_mel_bins: 80,
            subsampling_conv_kernel_size: 3,
            subsampling_conv_stride: 2,
            scale_input: true,
        }
    }
}

/// `preprocessor_config.json`, or the part of `processor_config.json` in its place.
#[derive(Deserialize)]
#[serde(default)]
struct ExtractorConfig {
    feature_size: usize,
    sampling_rate: u32,
    hop_length: usize,
    n_fft: usize,
    win_length: usize,
    preemphasis: Option<f64>,
}

impl Default for ExtractorConfig {
    fn default() -> Self {
        Self {
            feature_size: 80,
            sampling_rate: 16_000,
            hop_length: 160,
            n_fft: 512,
            win_length: 400,
            preemphasis: Some(0.97),
        }
    }
}

#[derive(Deserialize)]
struct ProcessorConfig {
    feature_extractor: Option<ExtractorConfig>,
}

/// Reads what a directory with a `config.json` holds.
pub(super) fn describe(directory: &Path) -> Result<Description, HuggingFaceError> {
    let path = directory.join("config.json");
    let KindOnly { model_type: kind } = read(&path)?;
    let config: CtcConfig = match kind {
        Kind::Encoder => CtcConfig { encoder_config: read(&path)?, ..Default::default() },
        _ => read(&path)?,
    };
    let blank = match (kind, config.pad_token_id) {
        (Kind::Ctc, Some(blank)) if blank + 1 == config.vocab_size => Some(blank),
        (Kind::Ctc, blank) => {
            return Err(HuggingFaceError::Unfit {
                path,
                key: "pad_token_id",
                value: blank.map_or("null".to_owned(), |blank| blank.to_string()),
                expected: format!("the blank is the last of vocab_size = {}", config.vocab_size),
            });
        }
        _ => None,
    };
    let num_mels = config.encoder_config.num_mel_bins;
    let model = model(&path, config.encoder_config)?;
    Ok(Description { kind, model, features: features(directory, num_mels)?, blank })
}

fn model(path: &Path, config: EncoderConfig) -> Result<ModelConfig, HuggingFaceError> {
    let unfit = |key, value: String, expected: &str| HuggingFaceError::Unfit {
        path: path.to_owned(),
        key,
        value,
        expected: expected.to_owned(),
    };
    if config.hidden_act != "silu" {
        return Err(unfit("hidden_act", config.hidden_act, "this encoder has silu"));
    }
    for (key, value, ours) in [
        ("subsampling_conv_kernel_size", config.subsampling_conv_kernel_size, 3),
        ("subsampling_conv_stride", config.subsampling_conv_stride, 2),
    ] {
        if value != ours {
            return Err(unfit(key, value.to_string(), &format!("this encoder has {ours}")));
        }
    }
    let (inner, outer) = (config.intermediate_size, config.hidden_size);
    if outer == 0 || !inner.is_multiple_of(outer) {
        let expected = format!("this encoder has a multiple of hidden_size = {outer}");
        return Err(unfit("intermediate_size", inner.to_string(), &expected));
    }
    Ok(ModelConfig {
        hidden_size: outer,
        num_layers: config.num_hidden_layers,
        num_heads: config.num_attention_heads,
        feed_forward_expansion: inner / outer,
        conv_kernel: config.conv_kernel_size,
        subsampling_factor: config.subsampling_factor,
        subsampling_channels: config.subsampling_conv_channels,
        scale_input: config.scale_input,
        linear_bias: config.attention_bias,
        conv_bias: config.convolution_bias,
        ..Default::default()
    })
}

/// The features of the directory's processor; of a directory without one, those that Parakeet's have.
fn features(directory: &Path, num_mels: usize) -> Result<LogMelConfig, HuggingFaceError> {
    let alone = directory.join("preprocessor_config.json");
    let nested = directory.join("processor_config.json");
    let (path, extractor) = if alone.is_file() {
        let extractor = read(&alone)?;
        (alone, Some(extractor))
    } else if nested.is_file() {
        let ProcessorConfig { feature_extractor } = read(&nested)?;
        (nested, feature_extractor)
    } else {
        (alone, None)
    };
    let default = || ExtractorConfig { feature_size: num_mels, ..Default::default() };
    let extractor = extractor.unwrap_or_else(default);
    if extractor.feature_size != num_mels {
        return Err(HuggingFaceError::Unfit {
            path,
            key: "feature_size",
            value: extractor.feature_size.to_string(),
            expected: format!("config.json says num_mel_bins = {num_mels}"),
        });
    }
    let rate_hz = extractor.sampling_rate;
    let ms = |samples: usize| samples as f64 * 1e3 / f64::from(rate_hz);
    Ok(LogMelConfig {
        window_ms: ms(extractor.win_length),
        hop_ms: ms(extractor.hop_length),
        n_fft: extractor.n_fft,
        num_mels,
        preemphasis: extractor.preemphasis.unwrap_or(0.0),
        ..Preset::Nemo.settings(rate_hz)
    })
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, HuggingFaceError> {
    let text = fs::read(path)
        .map_err(|source| HuggingFaceError::Read { path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|error| HuggingFaceError::Json {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// The first setting of `model` that `ParakeetForCTC` has no word for: key, value and the only value it
/// knows.
pub(super) fn foreign_part(model: &ModelConfig) -> Option<(String, String, String)> {
    let parakeet =
        ModelConfig { encoder: Encoder::Conformer, conv_norm: ConvNorm::Batch, ..model.clone() };
    foreign("model", &json!(model), &json!(parakeet))
}

/// The same of `features` and `ParakeetFeatureExtractor`.
pub(super) fn foreign_feature(features: &LogMelConfig) -> Option<(String, String, String)> {
    let parakeet = LogMelConfig {
        preset: features.preset,
        window_ms: features.window_ms,
        hop_ms: features.hop_ms,
        n_fft: features.n_fft,
        num_mels: features.num_mels,
        preemphasis: features.preemphasis,
        // Added in training only.
        dither: features.dither,
        ..Preset::Nemo.settings(features.sample_rate_hz)
    };
    foreign("features", &json!(features), &json!(parakeet))
}

/// The first key whose values differ, with both.
fn foreign(section: &str, ours: &Value, theirs: &Value) -> Option<(String, String, String)> {
    let mut keys = ours.as_object()?.keys().filter(|key| ours[*key] != theirs[*key]);
    let key = keys.next()?;
    Some((format!("{section}.{key}"), ours[key].to_string(), theirs[key].to_string()))
}

/// The small files of a directory, by name. The pad token of the tokenizer is the blank, which the
/// processor drops.
///
/// # Errors
///
/// Why the vocabulary has no form there.
pub(super) fn files(
    model: &ModelConfig,
    features: &LogMelConfig,
    tokens: &Tokens,
) -> Result<Vec<(&'static str, Value)>, TokensError> {
    let (tokenizer, pad) = tokens.tokenizer_json()?;
    let extractor = extractor(features);
    let mut processor = json!({
        "processor_class": "ParakeetProcessor",
        "blank_token": pad,
        "decoder_type": "ctc",
    });
    processor["feature_extractor"] = extractor.clone();
    Ok(vec![
        ("config.json", config(model, features, tokens)),
        ("preprocessor_config.json", extractor),
        ("processor_config.json", processor),
        ("tokenizer.json", tokenizer),
        (
            "tokenizer_config.json",
            json!({
                "tokenizer_class": "ParakeetTokenizer",
                "processor_class": "ParakeetProcessor",
                "pad_token": pad,
                "clean_up_tokenization_spaces": false,
                "model_max_length": 1_000_000,
            }),
        ),
    ])
}

fn config(model: &ModelConfig, features: &LogMelConfig, tokens: &Tokens) -> Value {
    json!({
        "architectures": ["ParakeetForCTC"],
        "model_type": "parakeet_ctc",
        "dtype": "float32",
        "vocab_size": tokens.num_classes(),
        "pad_token_id": tokens.blank(),
        "ctc_loss_reduction": "mean",
        "ctc_zero_infinity": true,
        "encoder_config": {
            "model_type": "parakeet_encoder",
            "hidden_size": model.hidden_size,
            "num_hidden_layers": model.num_layers,
            "num_attention_heads": model.num_heads,
            "num_key_value_heads": model.num_heads,
            "intermediate_size": model.hidden_size * model.feed_forward_expansion,
            "hidden_act": "silu",
            "attention_bias": model.linear_bias,
            "convolution_bias": model.conv_bias,
            "conv_kernel_size": model.conv_kernel,
            "subsampling_factor": model.subsampling_factor,
            "subsampling_conv_channels": model.subsampling_channels,
            "num_mel_bins": features.num_mels,
            "subsampling_conv_kernel_size": 3,
            "subsampling_conv_stride": 2,
            "scale_input": model.scale_input,
            "dropout": model.dropout,
            "dropout_positions": 0.0,
            "layerdrop": 0.0,
            "activation_dropout": model.dropout,
            "attention_dropout": model.attention_dropout,
        },
    })
}

fn extractor(features: &LogMelConfig) -> Value {
    json!({
        "feature_extractor_type": "ParakeetFeatureExtractor",
        "processor_class": "ParakeetProcessor",
        "feature_size": features.num_mels,
        "sampling_rate": features.sample_rate_hz,
        "hop_length": features.hop_len(),
        "n_fft": features.n_fft,
        "win_length": features.window_len(),
        "preemphasis": features.preemphasis,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(files: &[(&str, Value)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, value) in files {
            fs::write(dir.path().join(name), value.to_string()).unwrap();
        }
        dir
    }

    #[test]
    fn what_is_written_describes_itself() {
        let model = ModelConfig {
            hidden_size: 24,
            num_heads: 3,
            feed_forward_expansion: 2,
            conv_bias: false,
            ..Default::default()
        };
        let features = LogMelConfig {
            num_mels: 40,
            preemphasis: 0.0,
            window_ms: 20.0,
            ..Preset::Nemo.settings(11_025)
        };
        let tokens = Tokens::from_transcripts(["a b"]).unwrap();
        let dir = written(&files(&model, &features, &tokens).unwrap());
        let found = describe(dir.path()).unwrap();
        assert_eq!((found.kind, found.blank), (Kind::Ctc, Some(3)));
        assert_eq!(found.model, model);
        let read = found.features;
        let lens = |f: &LogMelConfig| (f.window_len(), f.hop_len(), f.n_fft);
        assert_eq!(lens(&read), lens(&features));
        let sizes = (features.window_ms, features.hop_ms);
        let read = LogMelConfig { window_ms: sizes.0, hop_ms: sizes.1, ..read };
        assert_eq!(read, features);
        // Without the files of the processor.
        fs::remove_file(dir.path().join("preprocessor_config.json")).unwrap();
        assert_eq!(describe(dir.path()).unwrap().features.num_mels, 40);
        fs::remove_file(dir.path().join("processor_config.json")).unwrap();
        assert_eq!(describe(dir.path()).unwrap().features.window_len(), 400);
    }

    #[test]
    fn keys_that_are_left_out_have_the_defaults_of_transformers() {
        let dir = written(&[("config.json", json!({ "model_type": "parakeet_ctc" }))]);
        let found = describe(dir.path()).unwrap();
        assert_eq!((found.model.hidden_size, found.model.num_layers), (1_024, 24));
        assert_eq!(found.blank, Some(1_024));
        assert_eq!(found.features, LogMelConfig::default());
        let encoder = json!({ "model_type": "parakeet_encoder", "hidden_size": 512, "intermediate_size": 1024 });
        let found = describe(written(&[("config.json", encoder)]).path()).unwrap();
        assert_eq!((found.kind, found.model.hidden_size), (Kind::Encoder, 512));
    }

    #[test]
    fn what_this_encoder_does_not_have_is_refused_by_key() {
        for (key, value) in [
            ("hidden_act", json!("relu")),
            ("subsampling_conv_stride", json!(4)),
            ("intermediate_size", json!(1_000)),
        ] {
            let config = json!({ "model_type": "parakeet_ctc", "encoder_config": { key: value } });
            let error = describe(written(&[("config.json", config)]).path()).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
        let config = json!({ "model_type": "parakeet_ctc", "pad_token_id": 0 });
        let error = describe(written(&[("config.json", config)]).path()).unwrap_err().to_string();
        assert!(error.contains("pad_token_id = 0") && error.contains("1025"), "{error}");
        let config = json!({ "model_type": "wav2vec2" });
        let error = describe(written(&[("config.json", config)]).path()).unwrap_err().to_string();
        assert!(error.contains("wav2vec2") && error.contains("parakeet_ctc"), "{error}");
    }

    #[test]
    fn features_without_a_word_in_parakeet_are_named() {
        let nemo = LogMelConfig { num_mels: 40, dither: 1e-5, ..Preset::Nemo.settings(8_000) };
        assert_eq!(foreign_feature(&nemo), None);
        let (key, found, _) = foreign_feature(&Preset::Kaldi.settings(16_000)).unwrap();
        assert!(!key.is_empty() && !found.is_empty());
        let fmin = LogMelConfig { fmin_hz: 20.0, ..nemo };
        let (key, found, only) = foreign_feature(&fmin).unwrap();
        assert_eq!(
            (key.as_str(), found.as_str(), only.as_str()),
            ("features.fmin_hz", "20.0", "0.0")
        );
    }

    #[test]
    fn encoders_and_norms_that_parakeet_does_not_have_are_named() {
        let model = ModelConfig { conv_kernel: 31, subsampling_factor: 4, ..Default::default() };
        assert_eq!(foreign_part(&model), None);
        let gru = ModelConfig { encoder: Encoder::Gru, ..model.clone() };
        let (key, found, only) = foreign_part(&gru).unwrap();
        assert_eq!([key, found, only], ["model.encoder", "\"gru\"", "\"conformer\""]);
        let norm = ModelConfig { conv_norm: ConvNorm::Layer, ..model };
        let (key, found, only) = foreign_part(&norm).unwrap();
        assert_eq!([key, found, only], ["model.conv_norm", "\"layer\"", "\"batch\""]);
    }
}
