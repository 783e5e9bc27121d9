//! Sizes, features and vocabulary that a config leaves out come from the weights that it starts from.
//!
//! A key that is given must agree with them: weights of other sizes do not fit, and features that the
//! weights were not trained on make nonsense of them. What only training knows (dropout, dither) is the
//! config's own. Of a bare weights file nothing is known, and the config says all.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ConfigError, RunConfig};
use crate::policy::Source;
use crate::tokens::TokenKind;

/// Keys that say how to train, not what the weights are.
const OWN_KEYS: &[&str] = &["model.dropout", "model.attention_dropout", "features.dither"];

/// Fills what is not among `given` from `config.init_from`. Of the vocabulary only whether the config
/// leaves it open is settled here: whether theirs will do is known when the transcripts are read.
pub(super) fn adopt(config: &mut RunConfig, given: &BTreeSet<String>) -> Result<(), ConfigError> {
    // Who gives a size means no vocabulary that is there already.
    if given.contains("tokens.size") && !given.contains("tokens.kind") {
        config.tokens.kind = TokenKind::Char;
    }
    let described = Source::open(&config.init_from)?.describe()?;
    if let Some(theirs) = described.model {
        merge(config, "model", given, &theirs, |config| &mut config.model)?;
    }
    if let Some(theirs) = described.features {
        // A preset gives all of its settings.
        let is_preset = given.contains("features.preset");
        let all = json!(theirs);
        let keys = all.as_object().into_iter().flat_map(|table| table.keys());
        let all: BTreeSet<String> = keys.map(|key| format!("features.{key}")).collect();
        let given = if is_preset { &all } else { given };
        merge(config, "features", given, &theirs, |config| &mut config.features)?;
    }
    Ok(())
}

/// Merges one section of the config.
fn merge<T: Serialize + DeserializeOwned>(
    config: &mut RunConfig,
    section: &str,
    given: &BTreeSet<String>,
    theirs: &T,
    of: fn(&mut RunConfig) -> &mut T,
) -> Result<(), ConfigError> {
    let path = config.init_from.clone();
    let ours = of(config);
    let (mut merged, theirs) = (json!(ours), json!(theirs));
    let keys = theirs.as_object().into_iter().flatten();
    for (key, value) in keys {
        let dotted = format!("{section}.{key}");
        if OWN_KEYS.contains(&dotted.as_str()) || agree(&merged[key], value) {
            continue;
        }
        if given.contains(&dotted) {
            return Err(ConfigError::SourceConflict {
                key: dotted,
                given: merged[key].to_string(),
                theirs: value.to_string(),
                path,
            });
        }
        merged[key] = value.clone();
    }
    *ours = serde_json::from_value(merged)
        .map_err(|error| ConfigError::Write { message: error.to_string() })?;
    Ok(())
}

/// Lengths that went through milliseconds agree as nearly as that allows.
fn agree(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::features::Preset;

    const CONFIG: &str = r#"{"model_type": "parakeet_ctc", "vocab_size": 3, "pad_token_id": 2,
        "encoder_config": {"hidden_size": 64, "intermediate_size": 128, "num_mel_bins": 40}}"#;
    const EXTRACTOR: &str = r#"{"feature_size": 40, "win_length": 320, "preemphasis": 0.5}"#;

    fn load(text: &str, overrides: &[&str]) -> Result<RunConfig, ConfigError> {
        let sandbox = tempfile::tempdir().unwrap();
        let weights = sandbox.path().join("weights");
        fs::create_dir(&weights).unwrap();
        fs::write(weights.join("config.json"), CONFIG).unwrap();
        fs::write(weights.join("preprocessor_config.json"), EXTRACTOR).unwrap();
        let path = sandbox.path().join("run.toml");
        fs::write(&path, text).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
        RunConfig::load(&path, &overrides)
    }

    #[test]
    fn what_the_config_leaves_out_comes_from_the_weights() {
        let text = "init_from = \"weights\"\n[model]\ndropout = 0.25\nnum_heads = 8\n";
        let config = load(text, &["features.dither=1e-5"]).unwrap();
        assert!(config.init_from.is_absolute() && config.init_from.ends_with("weights"));
        let model = &config.model;
        assert_eq!(
            (model.hidden_size, model.feed_forward_expansion, model.num_layers),
            (64, 2, 24)
        );
        assert_eq!((model.num_heads, model.dropout), (8, 0.25));
        let features = &config.features;
        assert_eq!((features.num_mels, features.window_len()), (40, 320));
        assert_eq!((features.preemphasis, features.dither), (0.5, 1e-5));
        // What is saved with the run is complete without the weights.
        let saved = config.to_toml().unwrap();
        assert_eq!(RunConfig::from_saved(Path::new("saved"), &saved).unwrap(), config);
    }

    #[test]
    fn a_key_that_disagrees_with_the_weights_is_named_with_both_values() {
        let text = "init_from = \"weights\"\n";
        for (set, words) in [
            ("model.hidden_size=128", ["`model.hidden_size` = 128", "have 64"]),
            ("model.encoder=gru", ["`model.encoder` = \"gru\"", "have \"conformer\""]),
            ("model.encoder=lstm", ["`model.encoder` = \"lstm\"", "leave the key out"]),
            ("model.conv_norm=layer", ["`model.conv_norm` = \"layer\"", "have \"batch\""]),
            ("features.num_mels=80", ["`features.num_mels` = 80", "have 40"]),
            ("features.preset=nemo", ["`features.", "leave the key out"]),
        ] {
            let error = load(text, &[set]).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        let error = load("init_from = \"nothing\"\n", &[]).unwrap_err().to_string();
        assert!(error.contains("nothing: no weights there"), "{error}");
    }

    #[test]
    fn a_vocabulary_that_is_asked_for_is_not_left_to_the_weights() {
        let text = "init_from = \"weights\"\n";
        let kind = |overrides: &[&str]| load(text, overrides).unwrap().tokens.kind;
        assert_eq!(kind(&[]), TokenKind::Auto);
        assert_eq!(kind(&["tokens.kind=char"]), TokenKind::Char);
        assert_eq!(kind(&["tokens.size=100"]), TokenKind::Char);
        // As a saved config has it.
        assert_eq!(kind(&["tokens.kind=auto", "tokens.size=256"]), TokenKind::Auto);
    }

    #[test]
    fn without_weights_nothing_changes() {
        let config = load("", &[]).unwrap();
        assert_eq!(config.features, Preset::Nemo.settings(16_000));
        assert_eq!(config.init_from(), None);
    }
}
