//! Transcripts: empty ones, characters that the model cannot spell, and more text than frames.

use crate::sandbox::Sandbox;
use crate::tones::{line, wav};

/// A tone corpus whose 13th utterance, a second long, has this transcript.
fn with_transcript(manifest: &str, text: &str) -> Sandbox {
    let sandbox = Sandbox::with_tones();
    sandbox.write("audio/odd.wav", wav(8_000, 1, &[100; 8_000]));
    sandbox.append(manifest, &line("audio/odd.wav", 1.0, text, "odd"));
    sandbox
}

#[test]
fn an_empty_transcript_is_kept_dropped_or_refused_as_the_config_says() {
    let sandbox = with_transcript("train.jsonl", "");
    let kept = sandbox.train(&["run.toml", "--out", "kept"]).succeeds();
    assert!(kept.stderr.contains("train     13 utterances"), "{kept}");
    let dropped = sandbox
        .train(&["run.toml", "--out", "dropped", "--set", "data.empty_text=drop"])
        .succeeds();
    assert!(dropped.stderr.contains("train     12 utterances"), "{dropped}");
    assert!(dropped.stderr.contains("left out: 1 empty transcript"), "{dropped}");
    let words = ["train.jsonl:13: utterance \"odd\"", "transcript is empty", "data.empty_text"];
    sandbox.train(&["run.toml", "--out", "run", "--set", "data.empty_text=error"]).fails(3, &words);
}

#[test]
fn a_transcript_of_blanks_is_an_empty_transcript() {
    let sandbox = with_transcript("train.jsonl", "  ");
    sandbox
        .check(&["run.toml", "--set", "data.empty_text=error"])
        .fails(3, &["train.jsonl:13: odd: ", "transcript is empty"]);
}

#[test]
fn transcripts_without_any_character_train_nothing() {
    let sandbox = Sandbox::with_tones();
    sandbox.write("audio/odd.wav", wav(8_000, 1, &[100; 8_000]));
    sandbox.write("train.jsonl", line("audio/odd.wav", 1.0, "", "odd"));
    sandbox.train(&["run.toml", "--out", "run"]).fails(3, &["hold no characters"]);
}

#[test]
fn a_character_unknown_in_dev_is_reported_before_training() {
    let sandbox = with_transcript("dev.jsonl", "a zebra");
    let outcome = sandbox.train(&["run.toml", "--out", "run"]).succeeds();
    let words = [
        "1 transcript holds characters outside the alphabet",
        "'z' (U+007A) 1x",
        "counted as errors",
    ];
    for word in words {
        assert!(outcome.stderr.contains(word), "{word}: {outcome}");
    }
    let check = sandbox.check(&["run.toml"]).succeeds();
    assert!(check.stdout.contains("'z' (U+007A) 1x"), "{check}");
}

#[test]
fn a_character_unknown_in_an_evaluation_is_counted_and_costs_its_words() {
    let sandbox = Sandbox::with_trained_run();
    let known = sandbox.read("test.jsonl");
    sandbox.write("strange.jsonl", known.replace("\"text\":\"", "\"text\":\"q\u{e9}q "));
    let outcome = sandbox.eval(&["run", "--manifest", "strange.jsonl"]).succeeds();
    assert!(
        outcome.stderr.contains("20 transcripts hold characters outside the alphabet"),
        "{outcome}"
    );
    assert!(outcome.stderr.contains("'q' (U+0071) 40x, '\u{e9}' (U+00E9) 20x"), "{outcome}");
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("run/eval/strange/results.json")).unwrap();
    assert_eq!(results["unknown_character_count"], 60);
    assert_eq!(results["unknown_characters"]["q"], 40);
    let usual: serde_json::Value =
        serde_json::from_str(&sandbox.read("run/eval/test/results.json")).unwrap();
    assert_eq!(results["ref_words"].as_u64(), usual["ref_words"].as_u64().map(|words| words + 20));
    assert!(
        results["deletions"].as_u64() >= usual["deletions"].as_u64().map(|deletions| deletions + 1),
        "{results}"
    );
    assert_eq!(usual["unknown_character_count"], 0);
}

#[test]
fn a_resumed_run_refuses_transcripts_that_its_vocabulary_cannot_spell() {
    let sandbox = with_transcript("train.jsonl", "a b");
    sandbox.train(&["run.toml", "--out", "run"]).succeeds();
    let manifest = sandbox.read("train.jsonl").replace("\"text\":\"a b\"", "\"text\":\"a z\"");
    sandbox.write("train.jsonl", manifest);
    let words = [
        "1 transcript with characters outside the alphabet: 'z' (U+007A) 1x",
        "data.normalizer",
        "train.jsonl:",
    ];
    sandbox.train(&["run.toml", "--out", "run", "--set", "train.epochs=3"]).fails(3, &words);
}

#[test]
fn a_transcript_longer_than_its_frames_is_left_out_by_name_and_counted_in_the_metrics() {
    let sandbox = with_transcript("train.jsonl", &"a b c ".repeat(20));
    let outcome = sandbox.train(&["run.toml", "--out", "run"]).succeeds();
    assert!(
        outcome.stderr.contains("left out: 1 too few frames to spell its transcript"),
        "{outcome}"
    );
    assert!(outcome.stderr.contains("train.jsonl:13 (\"odd\")"), "{outcome}");
    for record in
        sandbox.read("run/metrics.jsonl").lines().filter(|line| line.contains("\"train\""))
    {
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        assert_eq!(record["infeasible"], 1);
        assert!(record["loss"].as_f64().is_some_and(f64::is_finite), "{record}");
    }
}

#[test]
fn too_many_transcripts_longer_than_their_frames_stop_the_run() {
    let sandbox = with_transcript("train.jsonl", &"a b c ".repeat(20));
    let words = [
        "7.7 %",
        "train.max_infeasible_percent = 5",
        "model.subsampling_factor",
        "train.jsonl:13 (\"odd\")",
    ];
    sandbox
        .train(&["run.toml", "--out", "run", "--set", "train.max_infeasible_percent=5"])
        .fails(3, &words);
}
