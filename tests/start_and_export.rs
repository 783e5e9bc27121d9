//! Weights from elsewhere and to elsewhere: `init_from` and `asr-train export`.

use std::fs;

use crate::sandbox::{Sandbox, assert_nothing_half_written, files_below};
use crate::tones::{CONFIG, trained};

/// The names in a directory.
fn names(sandbox: &Sandbox, directory: &str) -> Vec<String> {
    let below = files_below(&sandbox.path(directory));
    below.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// The config of the tones without sizes and features, which come from the weights.
fn config_without_sizes(init_from: &str) -> String {
    format!(
        "init_from = \"{init_from}\"\n[train]\nepochs = 1\n[data]\ntrain = [\"train.jsonl\"]\n\
         dev = [\"dev.jsonl\"]\nbatch_s = 6.0\nnum_buckets = 2\n[optim]\nlearning_rate = 1e-9\n\
         [schedule]\nwarmup_steps = 1\n[spec_augment]\nfreq_masks = 0\ntime_masks = 0\n\
         [model]\ndropout = 0.0\nattention_dropout = 0.0\n"
    )
}

#[test]
fn a_run_starts_from_an_export_or_a_run_with_its_sizes_features_and_word_error_rate() {
    let sandbox = Sandbox::with_trained_run();
    let outcome = sandbox.run("asr-train", &["export", "run", "out/hf"]).succeeds();
    assert!(outcome.stdout.contains("49 tensors, 5 classes"), "{outcome}");
    assert!(outcome.stdout.contains("\"sampling_rate\": 8000"), "{outcome}");
    assert!(
        outcome.stdout.ends_with("written     out/hf\n") && outcome.stderr.is_empty(),
        "{outcome}"
    );
    assert_eq!(
        names(&sandbox, "out/hf"),
        [
            "config.json",
            "model.safetensors",
            "preprocessor_config.json",
            "processor_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "tokens.txt",
        ]
    );
    assert_nothing_half_written(&sandbox.path("out"));

    // So low a learning rate leaves the weights where they are; the batch norms see the same data again.
    for source in ["out/hf", "run", "run/checkpoints/best/model.safetensors"] {
        sandbox.write("more.toml", config_without_sizes(source));
        let out = format!("more-{}", source.replace('/', "-"));
        let outcome = sandbox
            .train(&["more.toml", "--out", &out, "--set", "data.test=test.jsonl"])
            .succeeds();
        assert!(outcome.stderr.contains("tensors matched, none missing"), "{outcome}");
        let wer = |stdout: &str| -> f64 {
            let line = stdout.lines().find(|line| line.starts_with("%WER")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let (before, after) = (wer(&trained().stdout), wer(&outcome.stdout));
        assert!((before - after).abs() < 5.0, "{before} {after} {outcome}");
        let saved = sandbox.read(&format!("{out}/config.toml"));
        assert!(saved.contains("hidden_size = 16") && saved.contains("sample_rate_hz = 8000"));
    }
    // What goes on needs the weights that it started from no more.
    let outcome = sandbox
        .train(&["more-run/config.toml", "--out", "more-run", "--set", "train.epochs=2"])
        .succeeds();
    assert!(outcome.stderr.contains("resumed at step"), "{outcome}");
}

#[test]
fn another_vocabulary_starts_the_head_anew_and_says_so() {
    let sandbox = Sandbox::with_trained_run();
    let train = sandbox.read("train.jsonl").replace("\"text\":\"", "\"text\":\"z ");
    sandbox.write("train.jsonl", train);
    sandbox.write("more.toml", config_without_sizes("run"));
    let outcome = sandbox.train(&["more.toml", "--out", "more"]).succeeds();
    assert!(outcome.stderr.contains("the head starts anew: its vocabulary"), "{outcome}");
}

#[test]
fn a_vocabulary_that_is_asked_for_wins_over_that_of_the_weights() {
    let sandbox = Sandbox::new();
    sandbox.write("run.toml", CONFIG);
    sandbox.corpus("train", 60, 1);
    sandbox.corpus("dev", 12, 2);
    let quick = ["--set", "train.max_steps=2", "--set", "schedule.warmup_steps=1"];
    let pieces =
        ["run.toml", "--out", "pieces", "--set", "tokens.kind=bpe", "--set", "tokens.size=7"];
    sandbox.train(&[&pieces[..], &quick].concat()).succeeds();
    sandbox.run("asr-train", &["export", "pieces", "hf"]).succeeds();
    sandbox.write("more.toml", config_without_sizes("hf"));
    for (out, set, words) in [
        ("open", "tokens.kind=auto", "tensors matched, none missing"),
        ("char", "tokens.kind=char", "the head starts anew: its vocabulary (7 symbols) is not"),
        ("size", "tokens.size=100", "the head starts anew: its vocabulary (7 symbols) is not"),
    ] {
        let args = ["more.toml", "--out", out, "--set", set];
        let outcome = sandbox.train(&[&args[..], &quick].concat()).succeeds();
        assert!(outcome.stderr.contains(words), "{outcome}");
        let is_open = out == "open";
        assert_eq!(outcome.stderr.contains("tokens 7 bpe pieces"), is_open, "{outcome}");
        assert_eq!(outcome.stderr.contains("tokens 4 characters"), !is_open, "{outcome}");
    }
}

#[test]
fn weights_that_do_not_fit_stop_the_run_and_name_the_key_or_the_tensors() {
    let sandbox = Sandbox::with_trained_run();
    let from_run = ["run.toml", "--out", "more", "--set", "init_from=run", "--set"];
    let with = |set| [&from_run[..], &[set]].concat();
    sandbox
        .train(&with("model.hidden_size=32"))
        .fails(2, &["`model.hidden_size` = 32", "have 16", "run"]);
    sandbox.train(&with("features.num_mels=24")).fails(2, &["`features.num_mels` = 24", "have 20"]);
    // A bare file says nothing of its sizes: its tensors do.
    fs::copy(sandbox.path("run/checkpoints/best/model.safetensors"), sandbox.path("w.safetensors"))
        .unwrap();
    let args = ["run.toml", "--out", "more", "--set", "init_from=w.safetensors", "--set"];
    sandbox
        .train(&[&args[..], &["model.num_layers=2"]].concat())
        .fails(2, &["w.safetensors", "missing: layers.1.", "leave sizes out of [model]"]);
    let nowhere = ["run.toml", "--set", "init_from=nowhere"];
    sandbox.train(&nowhere).fails(2, &["nowhere: no weights there", "config.json"]);
}

#[test]
fn what_cannot_be_exported_is_told_and_nothing_is_overwritten_or_left() {
    let sandbox = Sandbox::with_trained_run();
    sandbox.write("taken/file", "");
    let export = |run: &str, out: &str| sandbox.run("asr-train", &["export", run, out]);
    export("run", "taken").fails(2, &["taken", "it is there already"]);
    export("nowhere", "out").fails(2, &["nowhere", "holds no checkpoint"]);
    let weights = sandbox.path("run/checkpoints/best/model.safetensors");
    let whole = fs::read(&weights).unwrap();
    fs::write(&weights, &whole[..whole.len() - 1]).unwrap();
    export("run", "out").fails(1, &["model.safetensors", "damaged"]);
    assert!(!sandbox.path("out").exists());
    assert_eq!(names(&sandbox, "taken"), ["file"]);
}

#[test]
fn other_encoders_train_resume_and_start_runs_and_are_not_taken_for_parakeets() {
    let sandbox = Sandbox::with_trained_run();
    sandbox.run("asr-train", &["export", "run", "parakeet"]).succeeds();
    fs::copy(sandbox.path("run/checkpoints/best/model.safetensors"), sandbox.path("w.safetensors"))
        .unwrap();
    for (out, set, value, theirs) in [
        ("gru", "model.encoder=gru", "model.encoder = \"gru\"", "conformer"),
        ("lstm", "model.encoder=lstm", "model.encoder = \"lstm\"", "conformer"),
        ("layer", "model.conv_norm=layer", "model.conv_norm = \"layer\"", "batch"),
    ] {
        let steps = |count| format!("train.max_steps={count}");
        let train = |more: &[&str]| {
            let args = ["run.toml", "--out", out, "--set", set];
            sandbox.train(&[&args[..], more].concat())
        };
        let warm = ["--set", "schedule.warmup_steps=1", "--set"];
        train(&[&warm[..], &[&steps(2)]].concat()).succeeds();
        let outcome = train(&[&warm[..], &[&steps(3)]].concat()).succeeds();
        assert!(outcome.stderr.contains("resumed at step 2"), "{outcome}");

        let hf = format!("{out}-hf");
        sandbox
            .run("asr-train", &["export", out, &hf])
            .fails(2, &[value, &format!("has \"{theirs}\"; train with that")]);
        assert!(!sandbox.path(&hf).exists());
        let started = format!("{out}-more");
        let from = |source: &str, more: &[&str]| {
            sandbox.write("more.toml", config_without_sizes(source));
            let quick = ["--set", "train.max_steps=2", "--set", "schedule.warmup_steps=1"];
            sandbox.train(&[&["more.toml", "--out", &started], &quick[..], more].concat())
        };
        from("parakeet", &["--set", set])
            .fails(2, &[&format!("have \"{theirs}\""), "leave the key out"]);
        // A bare file has names alone.
        let bare =
            ["run.toml", "--out", &started, "--set", "init_from=w.safetensors", "--set", set];
        sandbox.train(&bare).fails(2, &["missing: ", "unexpected: "]);
        // What the config leaves out, the encoder among it, comes from the run.
        let outcome = from(out, &[]).succeeds();
        assert!(outcome.stderr.contains("tensors matched, none missing"), "{outcome}");
        assert!(
            sandbox.read(&format!("{started}/config.toml")).contains(&value["model.".len()..]),
            "{outcome}"
        );
    }
}
