//! `asr-train check`: every fault of every split in one go, what they share, and the usable part.

use std::fs;

use serde_json::Value;

use crate::sandbox::Sandbox;
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
            "11 recordings have another sample rate:",
            "and 8 more",
            "1 recordings hold no samples:",
            "dev.jsonl:2: utterance \"dev-001\"",
        ],
    );
    assert!(outcome.message().lines().count() < 10, "{outcome}");
    for words in [
        "error  train: 11 recordings have another sample rate",
        "error  dev: 1 recordings hold no samples",
    ] {
        assert!(outcome.stdout.contains(words), "{words}: {outcome}");
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
    assert_eq!(outcome.code, 1, "there is no folder out: {outcome}");
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
    assert!(outcome.stdout.contains("at speed 1.15: left out"), "{outcome}");
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
    assert!(outcome.stdout.contains("fixed/train.jsonl"), "{outcome}");
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
    sandbox.check(&["run.toml", "--fix", "x", "--report", "x"]).fails(2, &["give them two"]);
    // An older report makes way for the new one.
    for _ in 0..2 {
        sandbox.check(&["run.toml", "--report", "report.json"]).succeeds();
    }
}
