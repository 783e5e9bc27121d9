//! Configs and command lines that mean nothing: exit code 2, the place, the key and the way out,
//! before anything is read or written.

use crate::sandbox::Sandbox;

/// Trains with this text as the config, expecting exit code 2.
#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let sandbox = Sandbox::with_tones();
    sandbox.write("run.toml", text);
    sandbox.train(&["run.toml", "--out", "run"]).fails(2, words);
    assert!(!sandbox.path("run").exists());
    sandbox.check(&["run.toml"]).fails(2, words);
}

#[track_caller]
fn set_refused(argument: &str, words: &[&str]) {
    let sandbox = Sandbox::with_tones();
    sandbox.train(&["run.toml", "--out", "run", "--set", argument]).fails(2, words);
    assert!(!sandbox.path("run").exists());
}

#[test]
fn an_unknown_key_names_place_and_nearest_key() {
    let sandbox = Sandbox::with_tones();
    let config = sandbox.read("run.toml").replace("learning_rate", "learning_rte");
    let line = 1 + config.lines().position(|line| line.starts_with("learning_rte")).unwrap();
    sandbox.write("run.toml", &config);
    let place = format!(
        "run.toml:{line}:1: unknown key `optim.learning_rte`; the nearest known key is `optim.learning_rate`"
    );
    sandbox.train(&["run.toml", "--out", "run"]).fails(2, &[&place]);
    set_refused(
        "optim.learning_rte=1e-3",
        &["--set optim.learning_rte=1e-3", "`optim.learning_rate`"],
    );
}

#[test]
fn a_value_of_the_wrong_type_names_place_expected_and_found() {
    refused(
        "optim.beta1 = \"high\"",
        &["run.toml:1:15: `optim.beta1`: expected a number, found string \"high\""],
    );
    set_refused(
        "train.epochs=many",
        &["--set train.epochs=many", "expected a whole number, 0 or more"],
    );
}

#[test]
fn broken_toml_names_its_place() {
    refused("seed = ", &["run.toml:1:8: not valid TOML"]);
}

#[test]
fn a_value_out_of_range_names_its_key() {
    for (argument, words) in [
        ("train.epochs=0", "train.epochs must be at least 1"),
        ("model.num_heads=3", "model.num_heads = 3 must divide model.hidden_size = 16"),
        ("model.subsampling_factor=5", "model.subsampling_factor = 5 must be 2, 4 or 8"),
        ("optim.learning_rate=-1", "optim.learning_rate = -1 must be above 0"),
        ("features.n_fft=128", "features.n_fft = 128"),
        ("data.batch_s=0", "data.batch_s = 0"),
        ("data.speeds=[]", "data.speeds"),
        ("spec_augment.time_fraction=1.5", "spec_augment.time_fraction"),
        ("schedule.warmup_steps=100000", "schedule.warmup_steps = 100000 is longer than the run"),
        ("schedule.min_lr_ratio=2", "schedule.min_lr_ratio = 2"),
        ("data.train=[]", "data.train lists no manifest"),
        ("data.dev=[]", "data.dev lists no manifest"),
        ("data.train=", "`data.train`: expected a value behind `=`; [] is an empty list"),
        ("train.epochs=", "`train.epochs`: expected a value behind `=`"),
        ("data.dev=[\"\"]", "data.dev lists an empty name"),
    ] {
        let sandbox = Sandbox::with_tones();
        sandbox.train(&["run.toml", "--out", "run", "--set", argument]).fails(2, &[words]);
        sandbox.assert_nothing_half_written("run");
    }
}

#[test]
fn a_missing_config_is_named() {
    Sandbox::new()
        .train(&["no.toml"])
        .fails(2, &["no.toml: cannot read the config file", "No such file"]);
}

#[test]
fn a_command_line_that_means_nothing_shows_what_would() {
    let sandbox = Sandbox::with_tones();
    sandbox.run("asr-train", &[]).fails(2, &["CONFIG", "Usage: asr-train"]);
    sandbox
        .run("asr-train", &["run.toml", "--epochs", "3"])
        .fails(2, &["--epochs", "Usage: asr-train"]);
    sandbox
        .run("asr-train", &["run.toml", "--device", "gpu"])
        .fails(2, &["\"gpu\" is no device", "cuda[:i]"]);
    for (args, meant) in [
        (&["chek", "run.toml"][..], "asr-train check"),
        (&["chek"], "asr-train check"),
        (&["improt", "a", "b"], "asr-train import"),
        (&["docter"], "asr-train doctor"),
    ] {
        let words = format!("did you mean \"{meant}\"?");
        sandbox.run("asr-train", args).fails(2, &[&words]);
    }
    let missing = sandbox.run("asr-train", &["ran.toml"]).fails(2, &["ran.toml: cannot read"]);
    assert!(!missing.stderr.contains("did you mean"), "{missing}");
    sandbox.train(&["run.toml", "--set", "optim.learning_rate"]).fails(2, &["expected key=value"]);
    sandbox.run("asr-eval", &[]).fails(2, &["RUN|CHECKPOINT", "Usage: asr-eval"]);
    sandbox.eval(&["run", "--max-wer=-1"]).fails(2, &["--max-wer"]);
    sandbox.eval(&["run", "--max-wer", "low"]).fails(2, &["low"]);
}

#[test]
fn a_directory_without_a_checkpoint_is_no_run() {
    let sandbox = Sandbox::with_tones();
    sandbox.eval(&["audio"]).fails(2, &["audio holds no checkpoint", "checkpoints/last"]);
    sandbox.eval(&["nowhere"]).fails(2, &["nowhere holds no checkpoint"]);
    sandbox
        .train(&["run.toml", "--out", "run", "--resume", "nowhere"])
        .fails(2, &["nowhere holds no checkpoint"]);
}

#[test]
fn an_evaluation_without_a_manifest_says_how_to_give_one() {
    let sandbox = Sandbox::with_tones();
    sandbox.train(&["run.toml", "--out", "run"]).succeeds();
    sandbox.eval(&["run"]).fails(2, &["data.test", "--manifest FILE"]);
}

#[test]
fn a_run_is_not_resumed_with_another_config() {
    let sandbox = Sandbox::with_trained_run();
    let words = ["cannot resume", "model.dropout = 0.3 (was 0.0)", "--out DIR"];
    sandbox.train(&["run.toml", "--out", "run", "--set", "model.dropout=0.3"]).fails(2, &words);
}
