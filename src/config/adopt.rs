//! Sizes and features that a config leaves out come from the weights that it starts from.
//!
//! A key that is given must agree with them: weights of other sizes do not fit, and features that the
//! weights were not trained on make nonsense of them. What only training knows (dropout, dither) is the
//! config's own.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ConfigError, RunConfig};
use crate::policy::Source;

/// Keys that say how to train, not what the weights are.
const OWN_KEYS: &[&str] =
    &["model.dropout", "model.attention_dropout", "features.dither", "features.preset"];

/// Fills what is not among `given` from `config.init_from`.
pub(super) fn adopt(config: &mut RunConfig, given: &BTreeSet<String>) -> Result<(), ConfigError> {
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
