//! One TOML file, plus `--set key=value`, becomes one typed config, or one line that says what is
//! wrong and where.
//!
//! The structs decide what is legal (serde's `deny_unknown_fields`); their refusals come back with
//! a place, a dotted key and the nearest known key. Refuses to guess: an unknown key is never
//! ignored. TOML 1.1, toml.io.

mod error;
mod explain;
mod overrides;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Table;
use toml::de::{DeTable, DeValue};

pub use error::{ConfigError, Place};
use explain::{in_file, one_line, refuse_lists_as_tables};
use overrides::Assignment;

/// A config and what is known of its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    /// The config: defaults, then the file, then `--set` in the order typed.
    pub value: T,
    /// Dotted keys that the file or `--set` gave; the others have their defaults.
    pub given: BTreeSet<String>,
    /// Dotted keys that `--set` gave; a path under one of them is relative to the working
    /// directory, not the file.
    pub overridden: BTreeSet<String>,
}

/// Reads a config file and applies `--set` overrides.
///
/// An override's value is read as TOML; what is not TOML is taken as a string, and so is everything
/// for a key whose default is a string. A bare value for a key whose default is a list becomes a
/// list of one. Each override must leave a legal config by itself.
///
/// # Errors
/// The first thing wrong with the file, then with the overrides.
pub fn load<T>(path: &Path, overrides: &[String]) -> Result<Loaded<T>, ConfigError>
where
    T: Serialize + DeserializeOwned + Default,
{
    let bytes =
        fs::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let text = std::str::from_utf8(&bytes).map_err(|error| ConfigError::NotUtf8 {
        place: Place::of_offset(
            path,
            &String::from_utf8_lossy(&bytes[..error.valid_up_to()]),
            error.valid_up_to(),
        ),
    })?;
    parse(path, text, overrides)
}

/// Like [`load`], from text; `path` is used in messages only.
///
/// # Errors
/// As [`load`], without reading errors.
pub fn parse<T>(path: &Path, text: &str, overrides: &[String]) -> Result<Loaded<T>, ConfigError>
where
    T: Serialize + DeserializeOwned + Default,
{
    let root = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        place: Place::of_offset(path, text, error.span().map_or(text.len(), |span| span.start)),
        message: one_line(error.message()),
    })?;
    let defaults = default_table::<T>()?;
    refuse_lists_as_tables(path, text, root.get_ref(), &defaults)?;
    let mut value: T = toml::from_str(text)
        .map_err(|error| in_file(path, text, root.get_ref(), &defaults, &error))?;
    let mut given: BTreeSet<String> = keys("", root.get_ref()).into_iter().collect();
    if overrides.is_empty() {
        return Ok(Loaded { value, given, overridden: BTreeSet::new() });
    }
    // The value is legal TOML already; this second reading only forgets the spans.
    let mut table: Table = toml::from_str(text)
        .map_err(|error| in_file(path, text, root.get_ref(), &defaults, &error))?;
    let mut overridden = BTreeSet::new();
    for argument in overrides {
        let assignment = Assignment::parse(argument, &defaults)?;
        assignment.apply(&mut table)?;
        // One at a time, so that a refusal belongs to the argument that caused it.
        value =
            T::deserialize(table.clone()).map_err(|error| assignment.refusal(&defaults, &error))?;
        overridden.extend(assignment.keys());
    }
    given.extend(overridden.iter().cloned());
    Ok(Loaded { value, given, overridden })
}

/// The config as TOML, for the run directory. Absent options are left out; reading it back gives an
/// equal value.
///
/// # Errors
/// When the value is not a table or holds what TOML cannot say.
pub fn to_toml_string<T: Serialize>(value: &T) -> Result<String, ConfigError> {
    toml::to_string(value)
        .map_err(|error| ConfigError::Write { message: one_line(&error.to_string()) })
}

/// The dotted keys of the values in a table.
fn keys(prefix: &str, table: &DeTable<'_>) -> Vec<String> {
    let keys = table.iter().flat_map(|(key, value)| {
        let dotted = explain::join(prefix, key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => keys(&dotted, inner),
            _ => vec![dotted],
        }
    });
    keys.collect()
}

fn default_table<T: Serialize + Default>() -> Result<Table, ConfigError> {
    Table::try_from(T::default())
        .map_err(|error| ConfigError::Write { message: one_line(&error.to_string()) })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde::Deserialize;

    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Resample {
        #[default]
        Refuse,
        Allow,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Data {
        train: Vec<PathBuf>,
        test: Vec<PathBuf>,
        resample: Resample,
        max_seconds: Option<f64>,
    }

    impl Default for Data {
        fn default() -> Self {
            Self { train: vec![], test: vec![], resample: Resample::Refuse, max_seconds: None }
        }
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Optim {
        learning_rate: f64,
        weight_decay: f32,
        steps: usize,
        betas: [f64; 2],
    }

    impl Default for Optim {
        fn default() -> Self {
            Self { learning_rate: 1e-3, weight_decay: 0.1, steps: 100, betas: [0.9, 0.98] }
        }
    }

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Model {
        layers: usize,
        attention: Attention,
    }

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Attention {
        heads: usize,
        dropout: f64,
    }

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Run {
        name: String,
        is_quiet: bool,
        seed: u64,
        data: Data,
        optim: Optim,
        model: Model,
    }

    fn run(text: &str, overrides: &[&str]) -> Result<Loaded<Run>, ConfigError> {
        let overrides: Vec<String> = overrides.iter().map(|o| (*o).to_owned()).collect();
        parse(Path::new("run.toml"), text, &overrides)
    }

    fn message(text: &str, overrides: &[&str]) -> String {
        let message = run(text, overrides).unwrap_err().to_string();
        assert!(!message.contains('\n'), "{message:?}");
        message
    }

    fn set(argument: &str) -> Run {
        run("[data]\ntrain = [\"a\", \"b\"]", &[argument]).unwrap().value
    }

    #[test]
    fn a_file_changes_only_the_keys_it_names() {
        let loaded =
            run("seed = 7\n[optim]\nlearning_rate = 1\n[model.attention]\nheads = 4\n", &[])
                .unwrap();
        let want = Run {
            seed: 7,
            optim: Optim { learning_rate: 1.0, ..Optim::default() },
            model: Model { attention: Attention { heads: 4, dropout: 0.0 }, ..Model::default() },
            ..Run::default()
        };
        let given = ["model.attention.heads", "optim.learning_rate", "seed"].map(str::to_owned);
        assert_eq!(
            loaded,
            Loaded { value: want, given: given.into(), overridden: BTreeSet::new() }
        );
        assert_eq!(run("", &[]).unwrap().value, Run::default());
    }

    #[test]
    fn an_unknown_key_names_place_key_and_nearest_key() {
        assert_eq!(
            message("seed = 1\n[optim]\nlearning_rte = 1e-3\n", &[]),
            "run.toml:3:1: unknown key `optim.learning_rte`; the nearest known key is `optim.learning_rate`"
        );
        assert_eq!(
            message("model.attention = { heads = 4, dropuot = 0.1 }", &[]),
            "run.toml:1:32: unknown key `model.attention.dropuot`; the nearest known key is `model.attention.dropout`"
        );
        assert_eq!(
            message("[optm]\nlearning_rate = 1e-3\n", &[]),
            "run.toml:1:2: unknown key `optm`; the nearest known key is `optim`"
        );
    }

    #[test]
    fn an_option_that_is_absent_by_default_can_be_the_nearest_key() {
        assert_eq!(
            message("[data]\nmax_second = 3\n", &[]),
            "run.toml:2:1: unknown key `data.max_second`; the nearest known key is `data.max_seconds`"
        );
    }

    #[test]
    fn a_right_key_in_the_wrong_table_is_sent_to_its_own() {
        assert_eq!(
            message("learning_rate = 1e-3\n", &[]),
            "run.toml:1:1: unknown key `learning_rate`; the nearest known key is `optim.learning_rate`"
        );
    }

    #[test]
    fn a_key_near_no_other_lists_what_its_table_knows() {
        assert_eq!(
            message("[data]\nfoo = 1\n", &[]),
            "run.toml:2:1: unknown key `data.foo`; [data] knows max_seconds, resample, test, train"
        );
        assert_eq!(
            message("zzzzzz = 1\n", &[]),
            "run.toml:1:1: unknown key `zzzzzz`; the config knows data, is_quiet, model, name, optim, seed"
        );
    }

    #[test]
    fn a_wrong_type_names_place_key_expected_and_found() {
        for (text, want) in [
            (
                "[optim]\nsteps = \"x\"",
                "2:9: `optim.steps`: expected a whole number, 0 or more, found string \"x\"",
            ),
            (
                "[optim]\nsteps = 1.5",
                "2:9: `optim.steps`: expected a whole number, 0 or more, found floating point `1.5`",
            ),
            (
                "[optim]\n  steps = -1",
                "2:11: `optim.steps`: expected a whole number, 0 or more, found integer `-1`",
            ),
            (
                "optim.learning_rate = true",
                "1:23: `optim.learning_rate`: expected a number, found boolean `true`",
            ),
            ("optim = 3", "1:9: `optim`: expected a table, found integer `3`"),
            (
                "is_quiet = \"yes\"",
                "1:12: `is_quiet`: expected true or false, found string \"yes\"",
            ),
            (
                "data.train = \"x.jsonl\"",
                "1:14: `data.train`: expected a list, found string \"x.jsonl\"",
            ),
            (
                "data.train = [\"a\", 3]",
                "1:20: `data.train`: expected a path in quotes, found integer `3`",
            ),
            (
                "data.resample = \"maybe\"",
                "1:17: `data.resample`: unknown variant `maybe`, expected `refuse` or `allow`",
            ),
            (
                "data.max_seconds = \"x\"",
                "1:20: `data.max_seconds`: expected a number, found string \"x\"",
            ),
            ("name = 3", "1:8: `name`: expected a text in quotes, found integer `3`"),
        ] {
            assert_eq!(message(text, &[]), format!("run.toml:{want}"));
        }
    }

    #[test]
    fn a_list_never_fills_a_table_by_position() {
        for (text, want) in [
            ("optim = [1.0]", "1:9: `optim`"),
            ("[[optim]]\nsteps = 1", "1:1: `optim`"),
            ("[model]\nattention = []", "2:13: `model.attention`"),
        ] {
            let want = format!("run.toml:{want}: expected a table, found a list");
            assert_eq!(message(text, &[]), want);
        }
        let want = "--set model.attention=[4]: `model.attention`: expected a table, found a list";
        assert_eq!(message("", &["model.attention=[4]"]), want);
    }

    #[test]
    fn broken_toml_is_one_line_with_its_place() {
        let want = "run.toml:2:8: not valid TOML: ";
        for text in ["seed = 1\nname = \"open\n", "seed = 1\nname = \n", "seed = 1\nname = yes\n"] {
            let found = message(text, &[]);
            assert!(
                found.starts_with(&want[..11]) && found.contains("not valid TOML: "),
                "{found}"
            );
        }
        let twice = message("seed = 1\nseed = 2\n", &[]);
        assert_eq!(twice, "run.toml:2:1: not valid TOML: duplicate key");
    }

    #[test]
    fn a_byte_order_mark_and_windows_lines_move_no_place() {
        assert_eq!(run("\u{feff}seed = 3\r\n", &[]).unwrap().value.seed, 3);
        assert!(message("\u{feff}sed = 3\r\n", &[]).starts_with("run.toml:1:1: unknown key `sed`"));
        assert!(
            message("\u{feff}seed = 3\r\n[data]\r\nfoo = 1", &[]).starts_with("run.toml:3:1: ")
        );
        // Columns count characters: the umlaut is one, though two bytes.
        assert!(message("optim = { \"ä\" = 1 }", &[]).starts_with("run.toml:1:11: "));
        assert!(message("data = { train = [\"ä\"], foo = 1 }", &[]).starts_with("run.toml:1:25: "));
    }

    #[test]
    fn files_that_cannot_be_read_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let missing = load::<Run>(&dir.path().join("no.toml"), &[]).unwrap_err();
        assert!(missing.to_string().ends_with("no.toml: cannot read the config file"), "{missing}");
        assert!(std::error::Error::source(&missing).is_some());
        let binary = dir.path().join("binary.toml");
        fs::write(&binary, b"seed = 1\nname = \"\xff\"").unwrap();
        let message = load::<Run>(&binary, &[]).unwrap_err().to_string();
        assert!(
            message.ends_with(
                "binary.toml:2:9: the config file is not valid UTF-8; save it as UTF-8 text"
            ),
            "{message}"
        );
    }

    #[test]
    fn an_override_is_toml_or_else_a_string() {
        assert_eq!(set("optim.learning_rate=2e-4").optim.learning_rate, 2e-4);
        assert_eq!(set("optim.learning_rate = 1").optim.learning_rate, 1.0);
        assert_eq!(set("data.resample=allow").data.resample, Resample::Allow);
        assert_eq!(set("data.resample=\"allow\"").data.resample, Resample::Allow);
        assert!(set("is_quiet=true").is_quiet);
        assert_eq!(set("data.max_seconds=12").data.max_seconds, Some(12.0));
        assert_eq!(set("optim.betas=[0.8, 0.9]").optim.betas, [0.8, 0.9]);
        assert_eq!(set("model.attention.heads=8").model.attention.heads, 8);
        assert_eq!(set("name=a=b c").name, "a=b c");
        assert_eq!(set("name=").name, "");
    }

    #[test]
    fn a_text_key_takes_what_looks_like_a_number_or_a_date() {
        for name in ["7", "true", "2024-01-01", "[x]"] {
            assert_eq!(set(&format!("name={name}")).name, name);
        }
    }

    #[test]
    fn a_bare_value_for_a_list_becomes_a_list_of_one() {
        assert_eq!(set("data.test=x.jsonl").data.test, [PathBuf::from("x.jsonl")]);
        assert_eq!(set("data.train=[\"x.jsonl\", \"y.jsonl\"]").data.train.len(), 2);
        assert_eq!(set("data.train=[]").data.train.len(), 0);
    }

    #[test]
    fn later_overrides_win_and_their_keys_are_known() {
        let loaded = run("seed = 1", &["seed=2", "data.test=x", "seed=3"]).unwrap();
        assert_eq!(loaded.value.seed, 3);
        assert_eq!(loaded.overridden.into_iter().collect::<Vec<_>>(), ["data.test", "seed"]);
    }

    #[test]
    fn a_table_is_merged_and_its_keys_count_as_overridden() {
        let loaded = run(
            "[optim]\nsteps = 5\nlearning_rate = 3",
            &["optim={steps = 7, weight_decay = 0.0}"],
        )
        .unwrap();
        assert_eq!(
            loaded.value.optim,
            Optim { steps: 7, learning_rate: 3.0, weight_decay: 0.0, ..Optim::default() }
        );
        assert_eq!(
            loaded.overridden.into_iter().collect::<Vec<_>>(),
            ["optim.steps", "optim.weight_decay"]
        );
        assert_eq!(set("model={attention = {heads = 2}}").model.attention.heads, 2);
    }

    #[test]
    fn a_wrong_override_is_named_as_typed() {
        for (argument, want) in [
            (
                "optim.learning_rte=1",
                "unknown key `optim.learning_rte`; the nearest known key is `optim.learning_rate`",
            ),
            ("optm.steps=1", "unknown key `optm.steps`; the nearest known key is `optim.steps`"),
            ("lr=1", "unknown key `lr`; the config knows data, is_quiet, model, name, optim, seed"),
            ("steps=1", "unknown key `steps`; the nearest known key is `optim.steps`"),
            (
                "data.max_second=1",
                "unknown key `data.max_second`; the nearest known key is `data.max_seconds`",
            ),
            (
                "optim.steps=many",
                "`optim.steps`: expected a whole number, 0 or more, found string \"many\"",
            ),
            ("seed.x=1", "`seed.x`: `seed` holds a value (integer), not a table of keys"),
            (
                "data.resample=maybe",
                "`data.resample`: unknown variant `maybe`, expected `refuse` or `allow`",
            ),
            ("optim=3", "`optim`: expected a table, found integer `3`"),
            ("optim={step=1}", "unknown key `optim.step`; the nearest known key is `optim.steps`"),
        ] {
            assert_eq!(
                message("seed = 1", &["seed=2", argument]),
                format!("--set {argument}: {want}")
            );
        }
        assert!(message("", &["seed=a\nb"]).starts_with("--set seed=a b: "));
        for argument in ["seed", "=1", "a..b=1", "optim. steps=1", ""] {
            let want =
                "expected key=value with a dotted key, such as --set optim.learning_rate=1e-3";
            assert_eq!(message("", &[argument]), format!("--set {argument}: {want}"));
        }
    }

    #[test]
    fn what_is_written_reads_back_equal() {
        let mut value = set("data.max_seconds=0.1");
        value.name = "quotes \" and\nlines".to_owned();
        value.optim.weight_decay = 0.01;
        let text = to_toml_string(&value).unwrap();
        assert_eq!(run(&text, &[]).unwrap().value, value);
        assert!(text.contains("weight_decay = 0.01\n"), "{text}");
        value.seed = u64::MAX;
        assert_eq!(run(&to_toml_string(&value).unwrap(), &[]).unwrap().value, value);
        assert!(matches!(to_toml_string(&3), Err(ConfigError::Write { .. })));
    }
}
