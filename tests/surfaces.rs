//! The surfaces that people and scripts hold on to: help texts, the tree of the config, the
//! bundled configs, and the README. Growth shows as a diff of `tests/expected`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use asr::config::RunConfig;

use crate::sandbox::{Sandbox, files_below};

/// Flags of Cargo in the README's commands.
const CARGO_FLAGS: &[&str] = &[
    "--release",
    "--bin",
    "--test",
    "--features",
    "--workspace",
    "--all-targets",
    "--all-features",
    "--locked",
    "--no-deps",
    "--bench",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares with `tests/expected/NAME`, and says how to accept a change that is meant.
#[track_caller]
fn assert_expected(name: &str, found: &str) {
    let path = root().join("tests/expected").join(name);
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if expected == found {
        return;
    }
    let actual = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&actual, found).unwrap();
    panic!(
        "tests/expected/{name} is not what the program says. If the change is meant: cp {} {}\n{found}",
        actual.display(),
        path.display()
    );
}

#[test]
fn the_help_texts_are_frozen() {
    let sandbox = Sandbox::new();
    for (name, program, args) in [
        ("asr-train.help.txt", "asr-train", vec!["--help"]),
        ("asr-train-check.help.txt", "asr-train", vec!["check", "--help"]),
        ("asr-train-tokens.help.txt", "asr-train", vec!["tokens", "--help"]),
        ("asr-train-import.help.txt", "asr-train", vec!["import", "--help"]),
        ("asr-train-export.help.txt", "asr-train", vec!["export", "--help"]),
        ("asr-train-doctor.help.txt", "asr-train", vec!["doctor", "--help"]),
        ("asr-eval.help.txt", "asr-eval", vec!["--help"]),
    ] {
        let outcome = sandbox.run(program, &args).succeeds();
        assert_eq!(outcome.stderr, "");
        assert_expected(name, &outcome.stdout);
    }
}

#[test]
fn the_tree_of_the_config_and_its_defaults_are_frozen() {
    assert_expected("config-defaults.toml", &RunConfig::default().to_toml().unwrap());
}

fn configs() -> Vec<PathBuf> {
    let files = files_below(&root().join("configs"));
    files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect()
}

#[test]
fn every_bundled_config_is_valid() {
    let configs = configs();
    assert!(configs.iter().any(|path| path.ends_with("digits.toml")), "{configs:?}");
    for path in configs {
        // The recordings of some are not bundled: their manifests are given on the command line.
        let is_bundled = !path.ends_with("fsdd.toml");
        let set = if is_bundled { vec![] } else { vec!["data.train=a", "data.dev=b"] };
        let set: Vec<String> = set.into_iter().map(str::to_owned).collect();
        let config = RunConfig::load(&path, &set).unwrap_or_else(|error| panic!("{error}"));
        config.validate().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn the_bundled_corpus_is_good_to_train_on() {
    let config = root().join("configs/digits.toml");
    let outcome = Sandbox::new().check(&[config.to_str().unwrap()]).succeeds();
    assert!(outcome.stdout.contains("good to train"), "{outcome}");
    assert!(!outcome.stdout.contains("outside the alphabet"), "{outcome}");
    let splits: Vec<&str> =
        outcome.stdout.lines().next().unwrap_or("").split_whitespace().collect();
    assert_eq!(splits, ["train", "dev", "test"], "{outcome}");
}

/// The flags in a text: `--max-wer` of `--max-wer 5`.
fn flags(text: &str) -> BTreeSet<String> {
    let is_flag_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let words = text.split(|c: char| !is_flag_char(c));
    words
        .filter(|word| word.len() > 3 && word.starts_with("--") && !word.starts_with("---"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_readme_names_only_flags_and_configs_that_exist() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the project has a README.md");
    let mut known: BTreeSet<String> = CARGO_FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    let sandbox = Sandbox::new();
    for (program, args) in [
        ("asr-train", vec!["--help"]),
        ("asr-train", vec!["check", "--help"]),
        ("asr-train", vec!["export", "--help"]),
        ("asr-train", vec!["tokens", "--help"]),
        ("asr-eval", vec!["--help"]),
    ] {
        known.extend(flags(&sandbox.run(program, &args).succeeds().stdout));
    }
    let unknown: Vec<String> = flags(&readme).difference(&known).cloned().collect();
    assert!(unknown.is_empty(), "the README names flags that do not exist: {unknown:?}");
    let is_path_char = |c: char| c.is_ascii_alphanumeric() || "./_-".contains(c);
    for word in readme
        .split(|c: char| !is_path_char(c))
        .filter(|word| word.starts_with("configs/") && word.ends_with(".toml"))
    {
        assert!(root().join(word).is_file(), "the README names {word}, which does not exist");
    }
}

#[test]
fn both_programs_tell_their_version() {
    let sandbox = Sandbox::new();
    for program in ["asr-train", "asr-eval"] {
        let outcome = sandbox.run(program, &["--version"]).succeeds();
        assert_eq!(outcome.stdout, format!("{program} {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn doctor_lists_the_cpu_and_says_how_to_build_the_rest() {
    let outcome = Sandbox::new().run("asr-train", &["doctor"]).succeeds();
    assert!(outcome.stdout.starts_with("cpu "), "{outcome}");
    assert!(outcome.stdout.contains("CTC self-test passed"), "{outcome}");
    for (api, is_built) in [
        ("cuda", cfg!(feature = "cuda")),
        ("vulkan", cfg!(feature = "vulkan")),
        ("wgpu", cfg!(feature = "wgpu")),
    ] {
        let hint = outcome.stdout.contains(&format!("--features {api})"));
        assert_eq!(hint, !is_built, "{api}: {outcome}");
    }
}

#[test]
fn a_device_that_is_not_there_is_a_usage_error() {
    let sandbox = Sandbox::with_tones();
    let api = if cfg!(feature = "cuda") { "cuda:63" } else { "cuda" };
    let words =
        if cfg!(feature = "cuda") { "cuda:63 is not on this machine" } else { "--features cuda" };
    sandbox.run("asr-train", &["run.toml", "--out", "run", "--device", api]).fails(2, &[words]);
}
