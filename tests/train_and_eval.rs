//! The road that everybody takes: train, read the word error rate, evaluate the saved run.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::sandbox::{Outcome, Sandbox};
use crate::tones::{CONFIG, trained};

/// The `%WER` lines of a program's results.
fn wer_lines(stdout: &str) -> Vec<&str> {
    stdout.lines().filter(|line| line.starts_with("%WER")).collect()
}

fn percent(line: &str) -> f64 {
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn records(metrics: &str) -> Vec<Value> {
    metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_small_model_learns_the_tones() {
    let lines = wer_lines(&trained().stdout);
    assert_eq!(lines.len(), 1, "one line a test set: {}", trained().stdout);
    assert!(percent(lines[0]) < 30.0, "{}\n{}", lines[0], trained().stderr);
}

#[test]
fn evaluating_the_saved_run_gives_the_very_line_that_training_printed() {
    let sandbox = Sandbox::with_trained_run();
    for run in ["run", "run/checkpoints/best"] {
        let outcome = sandbox.eval(&[run, "--manifest", "test.jsonl"]).succeeds();
        assert_eq!(wer_lines(&outcome.stdout), wer_lines(&trained().stdout), "{outcome}");
    }
}

#[test]
fn results_go_to_stdout_and_all_else_to_stderr() {
    let lines: Vec<&str> = trained().stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", trained().stdout);
    assert_eq!(lines[0], "test");
    assert!(lines[1].starts_with("%WER ") && lines[1].ends_with(" sub ]"), "{}", lines[1]);
    assert!(lines[2].starts_with("%CER "), "{}", lines[2]);
    for word in ["train     60 utterances", "parameters", "REF", "HYP", "saved in run"] {
        assert!(
            trained().stderr.to_uppercase().contains(&word.to_uppercase()),
            "{word}: {}",
            trained().stderr
        );
    }
    assert!(
        !trained().stderr.contains('\u{1b}'),
        "no colour without a terminal: {}",
        trained().stderr
    );
}

#[test]
fn a_quiet_run_says_nothing_but_the_result() {
    let sandbox = Sandbox::with_tones();
    let outcome = sandbox
        .train(&["run.toml", "--out", "run", "--set", "data.test=dev.jsonl", "--quiet"])
        .succeeds();
    assert_eq!(outcome.stderr, "");
    assert_eq!(wer_lines(&outcome.stdout).len(), 1);
    let outcome = sandbox.eval(&["run", "--quiet"]).succeeds();
    assert_eq!(outcome.stderr, "");
}

#[test]
fn metrics_hold_the_promised_keys_on_every_line() {
    let promised = BTreeSet::from([
        "step",
        "epoch",
        "split",
        "loss",
        "lr",
        "grad_norm",
        "wer",
        "cer",
        "blank_rate",
        "infeasible",
        "skipped_nonfinite",
        "audio_s_per_s",
        "wall_s",
    ]);
    let records = records(&trained().sandbox.read("run/metrics.jsonl"));
    for record in &records {
        assert!(keys(record).is_superset(&promised), "{record}");
        assert!(record["loss"].as_f64().is_some_and(f64::is_finite), "{record}");
        let is_dev = record["split"] == "dev";
        assert_eq!(record["wer"].is_number(), is_dev, "{record}");
        assert_eq!(record["lr"].is_number(), !is_dev, "{record}");
    }
    assert_eq!(
        records.iter().filter(|record| record["split"] == "dev").count(),
        2,
        "epochs 10 and 20"
    );
    let steps: Vec<u64> = records
        .iter()
        .filter(|r| r["split"] == "train")
        .map(|r| r["step"].as_u64().unwrap())
        .collect();
    assert_eq!(
        steps,
        (1..=steps.len() as u64).collect::<Vec<_>>(),
        "a line each step, as train.log_every = 1 asks"
    );
    let times: Vec<f64> = records.iter().map(|record| record["wall_s"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_report_agrees_with_itself_and_with_what_was_printed() {
    let sandbox = &trained().sandbox;
    let results: Value = serde_json::from_str(&sandbox.read("run/eval/test/results.json")).unwrap();
    let promised = BTreeSet::from([
        "wer",
        "cer",
        "ref_words",
        "substitutions",
        "insertions",
        "deletions",
        "utterances",
        "audio_seconds",
        "rtfx",
        "checkpoint",
    ]);
    assert!(keys(&results).is_superset(&promised), "{results}");
    let count = |key: &str| results[key].as_u64().unwrap();
    let errors = count("substitutions") + count("insertions") + count("deletions");
    let line = format!(
        "%WER {:.2} [ {errors} / {}, {} ins, {} del, {} sub ]",
        100.0 * errors as f64 / count("ref_words") as f64,
        count("ref_words"),
        count("insertions"),
        count("deletions"),
        count("substitutions"),
    );
    assert_eq!(wer_lines(&trained().stdout), [line]);
    assert!(
        (results["wer"].as_f64().unwrap() - errors as f64 / count("ref_words") as f64).abs()
            < 1e-12
    );
    assert_eq!(count("utterances"), 20);
    assert!(results["rtfx"].as_f64().unwrap() > 1.0);
    assert!(
        std::path::Path::new(results["checkpoint"].as_str().unwrap())
            .join("manifest.json")
            .is_file()
    );

    let ids: Vec<String> = (0..20).map(|number| format!("(test-{number:03})")).collect();
    let [reference, hypothesis] =
        ["ref.trn", "hyp.trn"].map(|name| sandbox.read(&format!("run/eval/test/{name}")));
    for (text, name) in [(&reference, "ref.trn"), (&hypothesis, "hyp.trn")] {
        let found: Vec<&str> = text.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
        assert_eq!(found, ids, "{name}");
    }
    assert_eq!(reference.split_whitespace().count() as u64, count("ref_words") + 20);

    let mut rows = csv::Reader::from_path(sandbox.path("run/eval/test/per_utt.csv")).unwrap();
    let header: Vec<String> = rows.headers().unwrap().iter().map(str::to_owned).collect();
    for key in [
        "id",
        "ref_words",
        "substitutions",
        "deletions",
        "insertions",
        "wer",
        "reference",
        "hypothesis",
    ] {
        assert!(header.iter().any(|column| column == key), "{key}: {header:?}");
    }
    let column = |key: &str| header.iter().position(|column| column == key).unwrap();
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    for key in ["ref_words", "substitutions", "deletions", "insertions"] {
        let sum: u64 = rows.iter().map(|row| row[column(key)].parse::<u64>().unwrap()).sum();
        assert_eq!(sum, count(key), "{key}");
    }
}

#[test]
fn a_run_directory_holds_what_describes_it() {
    let sandbox = &trained().sandbox;
    sandbox.assert_nothing_half_written("run");
    assert_eq!(sandbox.read("run/tokens.txt"), "asr-tokens 1\n<space>\na\nb\nc\n");
    assert!(sandbox.read("run/config.toml").contains("hidden_size = 16"));
    for file in ["model.safetensors", "optimizer.bpk", "tokens.txt", "config.toml", "manifest.json"]
    {
        for link in ["last", "best"] {
            assert!(
                sandbox.path(&format!("run/checkpoints/{link}/{file}")).is_file(),
                "{link}/{file}"
            );
        }
    }
}

#[test]
fn a_bar_that_is_missed_exits_with_4_and_names_set_and_figure() {
    let sandbox = Sandbox::with_trained_run();
    // No model recognises words that its alphabet cannot spell.
    sandbox.write("hard.jsonl", sandbox.read("test.jsonl").replace("\"text\":\"", "\"text\":\"q "));
    let outcome = sandbox.eval(&["run", "--manifest", "hard.jsonl", "--max-wer", "0"]);
    let figure = wer_lines(&outcome.stdout)[0].split_whitespace().nth(1).unwrap().to_owned();
    outcome.fails(4, &["--max-wer 0 missed", &format!("hard has a WER of {figure} %")]);
    sandbox.eval(&["run", "--manifest", "hard.jsonl", "--max-wer", "100"]).succeeds();
    let above = (figure.parse::<f64>().unwrap() + 0.01).to_string();
    let both = ["run", "--manifest", "test.jsonl", "--manifest", "hard.jsonl", "--max-wer", &above];
    sandbox.eval(&both).succeeds();
}

#[test]
fn a_closed_stdout_is_no_panic() {
    let sandbox = Sandbox::with_trained_run();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_asr-eval"))
        .args(["run", "--manifest", "test.jsonl", "--device", "cpu", "--quiet"])
        .current_dir(sandbox.root())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take()); // as `asr-eval run | true` does
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(sandbox.path("run/eval/test/results.json").is_file());
}

/// A short run with everything random in it: dropout, masks, speeds, several batches.
fn random_run() -> Sandbox {
    let sandbox = Sandbox::new();
    let config = CONFIG
        .replace("epochs = 20", "epochs = 6")
        .replace("validate_every = 10", "validate_every = 3")
        .replace("dropout = 0.0", "dropout = 0.1")
        .replace("_masks = 0", "_masks = 1")
        .replace("num_buckets = 2", "num_buckets = 3\nspeeds = [0.9, 1.0, 1.1]");
    sandbox.write("run.toml", config);
    sandbox.corpus("train", 40, 1);
    sandbox.corpus("dev", 8, 2);
    sandbox
}

/// All that is learnt, and nothing of how fast.
fn learnt(sandbox: &Sandbox, run: &str) -> Vec<Value> {
    let mut records = records(&sandbox.read(&format!("{run}/metrics.jsonl")));
    for record in &mut records {
        let record = record.as_object_mut().unwrap();
        record.remove("wall_s");
        record.remove("audio_s_per_s");
    }
    records
}

fn weights(sandbox: &Sandbox, run: &str) -> Vec<u8> {
    fs::read(sandbox.path(&format!("{run}/checkpoints/last/model.safetensors"))).unwrap()
}

#[test]
fn two_runs_with_one_seed_have_the_same_losses_and_weights_to_the_bit() {
    let sandbox = random_run();
    sandbox.train(&["run.toml", "--out", "one"]).succeeds();
    sandbox.train(&["run.toml", "--out", "two", "--set", "data.workers=3"]).succeeds();
    sandbox.train(&["run.toml", "--out", "other", "--set", "train.seed=2"]).succeeds();
    assert_eq!(learnt(&sandbox, "one"), learnt(&sandbox, "two"));
    assert!(
        weights(&sandbox, "one") == weights(&sandbox, "two"),
        "the same losses from other weights"
    );
    assert_ne!(
        learnt(&sandbox, "one")[0]["loss"],
        learnt(&sandbox, "other")[0]["loss"],
        "the seed is used"
    );
}

#[test]
fn two_views_that_do_not_differ_are_the_training_on_one_and_those_that_do_are_compared() {
    let sandbox = Sandbox::with_tones();
    let train = |out: &str, set: &[&str]| {
        let set = set.iter().flat_map(|set| ["--set", set]);
        let args = ["run.toml", "--out", out, "--set", "train.max_steps=4"];
        sandbox.train(&args.into_iter().chain(set).collect::<Vec<_>>()).succeeds();
        learnt(&sandbox, out)
    };
    let one = train("one", &[]);
    let same = train("same", &["ctc.consistency=0.2"]);
    let masks = ["spec_augment.freq_masks=2", "spec_augment.time_masks=2"];
    let differ = train("differ", &[&["ctc.consistency=0.2"], &masks[..]].concat());
    for ((one, same), differ) in one.iter().zip(&same).zip(&differ) {
        let loss = |record: &Value| record["loss"].as_f64().unwrap();
        assert!((loss(one) - loss(same)).abs() < 1e-3 * loss(one), "{one} {same}");
        if one["split"] == "train" {
            assert!(one["consistency"].is_null(), "{one}");
            assert!(same["consistency"].as_f64().unwrap().abs() < 1e-6, "{same}");
            assert!(differ["consistency"].as_f64().unwrap() > 1e-4, "{differ}");
        }
    }
    let again = train("again", &[&["ctc.consistency=0.2"], &masks[..]].concat());
    assert_eq!(differ, again, "one seed, the same bits");
}

#[test]
fn set_overrides_the_file_and_is_saved_with_the_run() {
    let sandbox = Sandbox::with_tones();
    let set = [
        "--set",
        "train.max_steps=2",
        "--set",
        "model.num_layers=2",
        "--set",
        "optim.learning_rate=3e-4",
    ];
    let outcome = sandbox.train(&[&["run.toml", "--out", "run"], &set[..]].concat()).succeeds();
    assert!(outcome.stderr.contains("2 steps"), "{outcome}");
    let saved = sandbox.read("run/config.toml");
    assert!(
        saved.contains("num_layers = 2") && saved.contains("learning_rate = 0.0003"),
        "{saved}"
    );
    let records = records(&sandbox.read("run/metrics.jsonl"));
    assert_eq!(records.iter().filter(|record| record["split"] == "train").count(), 2);
    sandbox.eval(&["run", "--manifest", "dev.jsonl"]).succeeds();
}

#[test]
fn manifests_of_set_are_relative_to_the_working_directory() {
    let sandbox = Sandbox::with_tones();
    let config = sandbox.read("run.toml");
    sandbox.write("configs/run.toml", &config);
    sandbox.train(&["configs/run.toml"]).fails(3, &["configs/train.jsonl"]);
    let set = ["--set", "data.train=train.jsonl", "--set", "data.dev=[\"dev.jsonl\"]"];
    sandbox.train(&[&["configs/run.toml"], &set[..]].concat()).succeeds();
    assert!(
        sandbox.path("runs/run/checkpoints/last").is_dir(),
        "the run is named after its config"
    );
}

#[test]
fn wav_and_flac_at_several_rates_train_together() {
    let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits/");
    let sandbox = Sandbox::with_tones();
    let manifest = fs::read_to_string(format!("{digits}train.jsonl")).unwrap();
    let flac: String = manifest
        .lines()
        .take(4)
        .map(|line| line.replace("train/train", &format!("{digits}train/train")) + "\n")
        .collect();
    sandbox.append("train.jsonl", &flac);
    let train = ["run.toml", "--out", "run"];
    sandbox.train(&train).fails(3, &["4 of 16 utterances", "16000 Hz", "8000 Hz", ".flac"]);
    let outcome =
        sandbox.train(&[&train[..], &["--set", "data.resample=allow"]].concat()).succeeds();
    assert!(outcome.stderr.contains("train     16 utterances"), "{outcome}");
}

#[test]
fn accumulating_two_batches_is_one_batch_of_both() {
    // Batch statistics differ by batch, so the first step's loss alone is comparable only with
    // sums of the same utterances: 16 recordings of one length make either one batch or two.
    let sandbox = Sandbox::new();
    sandbox.corpus("all", 40, 1);
    let all = sandbox.read("all.jsonl");
    sandbox.write(
        "train.jsonl",
        all.lines().take(16).map(|line| format!("{line}\n")).collect::<String>(),
    );
    sandbox.write(
        "dev.jsonl",
        all.lines().skip(36).map(|line| format!("{line}\n")).collect::<String>(),
    );
    sandbox.write(
        "run.toml",
        CONFIG
            .replace("num_buckets = 2", "num_buckets = 1")
            .replace("warmup_steps = 10", "warmup_steps = 0"),
    );
    let run = |out: &str, set: &[&str]| -> Value {
        let base =
            ["run.toml", "--out", out, "--set", "train.max_steps=1", "--set", "data.batch_s=1000"];
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
        sandbox.train(&[&base[..], &set].concat()).succeeds();
        records(&sandbox.read(&format!("{out}/metrics.jsonl"))).remove(0)
    };
    let whole = run("whole", &["data.max_batch_utterances=16"]);
    let halves = run("halves", &["data.max_batch_utterances=8", "optim.accumulate=2"]);
    let near = |key: &str, tolerance: f64| {
        let (a, b) = (whole[key].as_f64().unwrap(), halves[key].as_f64().unwrap());
        assert!((a - b).abs() <= tolerance * a.abs(), "{key}: {a} as one batch, {b} as two");
    };
    // Not to the bit: batch normalisation sees 8 utterances or 16. Summing instead of averaging
    // would be off by a factor of two.
    near("loss", 0.15);
    near("grad_norm", 0.5);
}

#[test]
fn a_run_that_loses_its_loss_exits_with_5_and_names_utterances() {
    let sandbox = Sandbox::with_tones();
    let set = [
        "optim.learning_rate=1e30",
        "optim.max_grad_norm=0",
        "optim.max_nonfinite_steps=2",
        "schedule.warmup_steps=0",
        "train.epochs=20",
        "train.validate_every=20",
    ];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let outcome: Outcome = sandbox.train(&[&["run.toml", "--out", "run"], &set[..]].concat());
    assert!(outcome.stderr.contains("skipped"), "the first bad step is a remark: {outcome}");
    outcome.fails(
        5,
        &["diverged at step", "in 2 steps in a row", "lower optim.learning_rate", "train-0"],
    );
    sandbox.assert_nothing_half_written("run");
}
