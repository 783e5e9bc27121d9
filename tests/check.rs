//! `asr-train check`: every fault of every split in one go, what they share, and the usable part.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Sandbox, unwrapped};
use crate::tones::{line, wav};

fn report(sandbox: &Sandbox, name: &str) -> Value {
    serde_json::from_str(&sandbox.read(name)).unwrap()
}

/// The findings of a kind: severity, split, count.
fn found(report: &Value, kind: &str) -> Vec<(String, String, u64)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["kind"] == kind)
        .map(|f| (text(&f["severity"]), text(&f["split"]), f["count"].as_u64().unwrap()))
        .collect()
}

fn triple(severity: &str, split: &str, count: u64) -> (String, String, u64) {
    (severity.to_owned(), split.to_owned(), count)
}

#[test]
fn every_fault_of_every_split_is_told_at_once_and_a_thousand_alike_are_one() {
    let sandbox = Sandbox::with_tones();
    for number in 0..11 {
        let name = format!("audio/rate-{number}.wav");
        sandbox.write(&name, wav(16_000, 1, &[100; 16_000]));
        sandbox.append("train.jsonl", &line(&name, 1.0, "a", &format!("rate-{number}")));
    }
    sandbox.write("audio/dev-001.wav", b"");
    let outcome = sandbox.check(&["run.toml"]).fails(
        3,
        &[
            "12 of 27 utterances cannot be used",
            "error  train: 11 recordings have another sample rate",
            "train.jsonl:13: rate-0: audio/rate-0.wav: sample rate is 16000 Hz but 8000 Hz",
            "and 10 more",
            "error  dev: 1 recording holds no samples",
            "dev.jsonl:2: dev-001: audio/dev-001.wav",
            "all of it: data_report.json",
        ],
    );
    assert!(outcome.message().lines().count() < 10, "{outcome}");
    assert!(!outcome.stdout.contains("error"), "what is on stderr is not on stdout: {outcome}");
    // The log of a build with GPUs says what devices it passes over.
    let lines = outcome.stdout.lines().chain(outcome.stderr.lines());
    for line in lines.filter(|line| !line.starts_with(" INFO ")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let rows: Vec<Vec<&str>> =
        outcome.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [["train", "dev"].as_slice(), &["utterances", "23", "4"], &["usable", "12", "3"]] {
        assert!(rows.contains(&row.to_vec()), "{row:?}: {outcome}");
    }
    let report = report(&sandbox, "data_report.json");
    assert_eq!(found(&report, "sample_rate"), [triple("error", "train", 11)]);
    assert_eq!(found(&report, "no_samples"), [triple("error", "dev", 1)]);
    assert_eq!(report["splits"][0]["rates_hz"]["8000"], 12);
    assert!(!report["buckets"].as_array().unwrap().is_empty(), "what is sound is batched");
}

#[test]
fn doubtful_data_is_told_of_and_trains() {
    let sandbox = Sandbox::with_tones();
    let train = sandbox.read("train.jsonl");
    let again = train.lines().next().unwrap().replace("train-000\"", "again\"");
    sandbox.append("train.jsonl", &(again + "\n"));
    sandbox.append("dev.jsonl", train.lines().nth(1).unwrap());
    for (name, sample) in [("silent", 0), ("loud", 32_767)] {
        let audio = format!("audio/{name}.wav");
        sandbox.write(&audio, wav(8_000, 1, &[sample; 8_000]));
        sandbox.append("train.jsonl", &line(&audio, 1.0, "b", name));
    }
    let outcome = sandbox.check(&["run.toml", "--report", "out/../report.json"]);
    outcome.fails(2, &["cannot write the report to out/../report.json", "No such file"]);
    let outcome = sandbox.check(&["run.toml", "--report", "report.json"]).succeeds();
    assert!(outcome.stdout.contains("good to train"), "{outcome}");
    assert!(!sandbox.path("data_report.json").exists());
    let report = report(&sandbox, "report.json");
    for (kind, split) in [
        ("duplicate", "train"),
        ("silent", "train"),
        ("clipping", "train"),
        ("shared_audio", "train, dev"),
    ] {
        assert_eq!(found(&report, kind), [triple("warning", split, 1)], "{kind}: {outcome}");
    }
    assert_eq!(found(&report, "shared_texts")[0].0, "note");
    sandbox.train(&["run.toml", "--out", "run"]).succeeds();
}

#[test]
fn transcripts_are_fitted_at_the_fastest_speed() {
    let sandbox = Sandbox::with_tones();
    sandbox.write("audio/odd.wav", wav(8_000, 1, &[100; 8_000]));
    // 25 frames of output at speed 1, 22 at 1.15.
    sandbox.append("train.jsonl", &line("audio/odd.wav", 1.0, &"a b".repeat(8), "odd"));
    let check = |speeds: &str| {
        let outcome =
            sandbox.check(&["run.toml", "--set", &format!("data.speeds={speeds}")]).succeeds();
        (found(&report(&sandbox, "data_report.json"), "infeasible"), outcome)
    };
    assert_eq!(check("[1.0]").0, []);
    let (infeasible, outcome) = check("[1.0, 1.15]");
    assert_eq!(infeasible, [triple("warning", "train", 1)]);
    assert!(unwrapped(&outcome.stdout).contains("at speed 1.15: left out"), "{outcome}");
    assert!(outcome.stdout.contains("22 frames leave the model, 24 are needed"), "{outcome}");
}

#[test]
fn the_usable_part_is_written_and_trains() {
    let sandbox = Sandbox::with_tones();
    for name in ["audio/train-003.wav", "audio/train-007.wav"] {
        sandbox.write(name, b"<html>");
    }
    sandbox.write("audio/odd.wav", wav(8_000, 1, &[100; 8_000]));
    sandbox.append("train.jsonl", &line("audio/odd.wav", 1.0, &"a b c ".repeat(20), "odd"));
    fs::create_dir(sandbox.path("fixed")).unwrap();
    let fix = ["run.toml", "--fix", "fixed/train.jsonl"];
    let outcome = sandbox.check(&fix).fails(3, &["2 of 17 utterances", "not audio"]);
    let words = "usable part of the training set: 10 utterances in fixed/train.jsonl";
    assert!(outcome.stdout.contains(words), "{outcome}");
    let fixed = sandbox.read("fixed/train.jsonl");
    assert_eq!(fixed.lines().count(), 10, "{fixed}");
    assert!(fixed.starts_with("{\"audio_filepath\":\"../audio/train-000.wav\""), "{fixed}");
    let set = ["run.toml", "--set", "data.train=fixed/train.jsonl"];
    let outcome = sandbox.check(&set).succeeds();
    assert!(outcome.stdout.contains("train     10 utterances"), "{outcome}");
    sandbox.train(&[&set[..], &["--out", "run"]].concat()).succeeds();
    sandbox.assert_nothing_half_written("fixed");
}

#[test]
fn no_file_of_others_is_overwritten() {
    let sandbox = Sandbox::with_tones();
    for name in ["train.jsonl", "run.toml", "audio/train-000.wav"] {
        let before = fs::read(sandbox.path(name)).unwrap();
        for flag in ["--fix", "--report"] {
            let outcome = sandbox.check(&["run.toml", flag, name]);
            outcome.fails(2, &[name, "there is such a file already"]);
        }
        assert_eq!(fs::read(sandbox.path(name)).unwrap(), before);
    }
    for (fix, report) in [("x", "x"), ("x", "./x"), ("audio/../x", "x")] {
        let args = ["run.toml", "--fix", fix, "--report", report];
        sandbox.check(&args).fails(2, &["give them two"]);
    }
    // An older report makes way for the new one.
    for _ in 0..2 {
        sandbox.check(&["run.toml", "--report", "report.json"]).succeeds();
    }
}

#[test]
fn settings_that_cannot_fit_are_refused_before_a_recording_is_read() {
    for (argument, words) in [
        ("data.batch_s=0.5", "raise data.batch_s or lower data.max_duration_s"),
        ("schedule.warmup_steps=1000", "schedule.warmup_steps = 1000 is longer than the run"),
        ("schedule.min_lr_ratio=2", "schedule.min_lr_ratio = 2"),
    ] {
        let sandbox = Sandbox::with_tones();
        // Whoever reads recordings first stumbles over these.
        fs::remove_dir_all(sandbox.path("audio")).unwrap();
        let outcome = sandbox.check(&["run.toml", "--set", argument]).fails(2, &[words]);
        assert_eq!(outcome.stdout, "", "{outcome}");
        sandbox.train(&["run.toml", "--out", "run", "--set", argument]).fails(2, &[words]);
    }
}

#[test]
fn what_no_manifest_claims_is_judged_in_the_end_with_the_same_exit_code() {
    let sandbox = Sandbox::with_tones();
    let unclaimed: String = sandbox
        .read("train.jsonl")
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("duration");
            format!("{line}\n")
        })
        .collect();
    sandbox.write("train.jsonl", unclaimed);
    let outcome = sandbox.check(&["run.toml", "--set", "data.batch_s=0.5"]);
    let outcome = outcome.fails(2, &["raise data.batch_s or lower data.max_duration_s"]);
    assert!(outcome.stdout.contains("utterances"), "the report is there: {outcome}");
}

#[test]
fn quiet_says_the_verdict_and_the_errors_and_nothing_else() {
    let sandbox = Sandbox::with_tones();
    let outcome = sandbox.check(&["run.toml", "--quiet"]).succeeds();
    assert!(outcome.stdout.starts_with("run.toml: good to train"), "{outcome}");
    assert_eq!((outcome.stdout.lines().count(), outcome.stderr.as_str()), (1, ""), "{outcome}");
    sandbox.write("audio/dev-001.wav", b"");
    let outcome = sandbox.check(&["run.toml", "--quiet"]);
    let outcome = outcome.fails(3, &["1 of 16 utterances", "dev: 1 recording holds no samples"]);
    assert_eq!(outcome.stdout, "", "{outcome}");
}

#[test]
fn what_is_wrong_with_any_manifest_is_told_at_once() {
    let sandbox = Sandbox::with_tones();
    sandbox.append("train.jsonl", "{\"audio_filepath\": \"a.wav\", \"transcript\": \"a\"}\n");
    sandbox.append("dev.jsonl", "x\n");
    let words = [
        "train.jsonl:13:",
        "no key \"text\"; the nearest is \"transcript\"",
        "dev.jsonl:5:1: expected a JSON object",
        "none.jsonl: cannot read the manifest",
    ];
    let outcome = sandbox.check(&["run.toml", "--set", "data.test=none.jsonl"]).fails(3, &words);
    assert_eq!(outcome.stdout, "", "{outcome}");
}

#[test]
fn nothing_usable_is_no_file() {
    let sandbox = Sandbox::with_tones();
    let args = ["run.toml", "--fix", "usable.jsonl", "--set", "data.min_duration_s=20"];
    let outcome = sandbox.check(&args).fails(3, &["no utterance is left of 12"]);
    assert!(!sandbox.path("usable.jsonl").exists(), "{outcome}");
    assert!(outcome.stdout.contains("0 utterances, so no usable.jsonl"), "{outcome}");
}

#[test]
fn paths_are_as_seen_from_here_and_have_no_detours() {
    let sandbox = Sandbox::with_tones();
    let config =
        sandbox.read("run.toml").replace("\"train.jsonl\"", "\"../configs/../train.jsonl\"");
    sandbox.write("configs/run.toml", config.replace("\"dev.jsonl\"", "\"../dev.jsonl\""));
    sandbox.write("audio/train-002.wav", b"");
    let outcome = sandbox.check(&["configs/run.toml"]);
    let outcome = outcome.fails(3, &["    train.jsonl:3: train-002: audio/train-002.wav: "]);
    assert!(!outcome.stderr.contains(".."), "{outcome}");
}
