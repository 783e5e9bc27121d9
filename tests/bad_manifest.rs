//! Manifests: what is forgiven (BOM, CRLF, blank lines) and what is refused, with file, line and
//! column. A run that was refused has written nothing.

use std::fs;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::sandbox::{Sandbox, files_below};
use crate::tones::line;

/// Trains, expects exit code 3 with `words`, and an output directory without a file.
#[track_caller]
fn refused(sandbox: &Sandbox, words: &[&str]) {
    sandbox.train(&["run.toml", "--out", "run"]).fails(3, words);
    assert_eq!(files_below(&sandbox.path("run")), Vec::<std::path::PathBuf>::new());
    sandbox.check(&["run.toml"]).fails(3, words);
}

/// The corpus's manifest with line `number` (from 1) replaced.
fn with_line(sandbox: &Sandbox, number: usize, line: &str) {
    let manifest = sandbox.read("train.jsonl");
    let mut lines: Vec<&str> = manifest.lines().collect();
    lines[number - 1] = line;
    sandbox.write("train.jsonl", lines.join("\n"));
}

#[test]
fn a_missing_manifest_is_named_by_its_path() {
    let sandbox = Sandbox::with_tones();
    fs::remove_file(sandbox.path("train.jsonl")).unwrap();
    let path = sandbox.path("train.jsonl").display().to_string();
    refused(&sandbox, &[&path, "cannot read the manifest", "No such file"]);
}

#[test]
fn a_missing_test_manifest_is_found_before_the_first_step() {
    let sandbox = Sandbox::with_tones();
    let outcome = sandbox.train(&["run.toml", "--out", "run", "--set", "data.test=no.jsonl"]);
    let outcome = outcome.fails(3, &["no.jsonl", "cannot read the manifest"]);
    assert!(!outcome.stderr.contains("step"), "hours of training must not come first: {outcome}");
    assert!(!sandbox.path("run/checkpoints").exists());
}

#[test]
fn a_directory_given_as_a_manifest_is_refused() {
    let sandbox = Sandbox::with_tones();
    fs::remove_file(sandbox.path("train.jsonl")).unwrap();
    fs::create_dir(sandbox.path("train.jsonl")).unwrap();
    refused(&sandbox, &["train.jsonl", "cannot read the manifest", "directory"]);
}

#[test]
fn a_malformed_line_is_named_by_file_line_and_column() {
    for (text, place) in [
        (r#"{"audio_filepath": "a.wav", "text": }"#, "train.jsonl:3:37: expected a value"),
        (
            r#"{"audio_filepath": "a.wav", "text": "a""#,
            "train.jsonl:3:39: the line ends before its closing brace",
        ),
        ("three seven oh nine", "train.jsonl:3:"),
        (r#"["a.wav", "a"]"#, "train.jsonl:3:"),
        (
            r#"{"audio_filepath": "a.wav", "text": "a"} {}"#,
            "train.jsonl:3:42: expected the end of the line",
        ),
        (r#"{"audio_filepath": 7, "text": "a"}"#, "train.jsonl:3:20: \"audio_filepath\" is 7"),
    ] {
        let sandbox = Sandbox::with_tones();
        with_line(&sandbox, 3, text);
        refused(
            &sandbox,
            &[place, "each line is a JSON object with \"audio_filepath\" and \"text\""],
        );
    }
}

#[test]
fn the_first_faults_are_listed_and_the_rest_counted() {
    let sandbox = Sandbox::with_tones();
    for _ in 0..14 {
        sandbox.append("train.jsonl", "{\"audio_filepath\": \"a.wav\"}\n");
    }
    sandbox.append("train.jsonl", "nothing\n");
    let outcome = sandbox.check(&["run.toml"]).fails(
        3,
        &[
            "train.jsonl: 15 faults;",
            "and 9 more of this kind",
            "train.jsonl:27:1: expected a JSON object",
        ],
    );
    for line in 13..18 {
        assert!(outcome.stderr.contains(&format!("train.jsonl:{line}:")), "{outcome}");
    }
    assert!(!outcome.stderr.contains("train.jsonl:18:"), "{outcome}");
}

#[test]
fn a_manifest_that_is_not_utf8_is_named_by_line() {
    let sandbox = Sandbox::with_tones();
    let mut bytes = fs::read(sandbox.path("train.jsonl")).unwrap();
    bytes.extend(b"{\"audio_filepath\": \"audio/train-000.wav\", \"text\": \"\xe4\"}\n");
    sandbox.write("train.jsonl", bytes);
    refused(&sandbox, &["train.jsonl:13:"]);
}

#[test]
fn a_line_with_the_key_of_another_tool_learns_the_right_keys() {
    let sandbox = Sandbox::with_tones();
    with_line(&sandbox, 2, r#"{"audio_filename": "audio/train-001.wav", "text": "a"}"#);
    refused(&sandbox, &["train.jsonl:2:", "the nearest is \"audio_filename\"", "\"duration\""]);
}

#[test]
fn a_byte_order_mark_windows_lines_and_blank_lines_are_read() {
    let sandbox = Sandbox::with_tones();
    let lines = sandbox.read("train.jsonl").replace('\n', "\r\n\r\n  \r\n");
    sandbox.write("train.jsonl", format!("\u{feff}{lines}"));
    let dev = sandbox.read("dev.jsonl");
    sandbox.write("dev.jsonl", dev.trim_end());
    let outcome = sandbox.check(&["run.toml"]).succeeds();
    assert!(
        outcome.stdout.contains("train     12 utterances"),
        "no utterance may be lost: {outcome}"
    );
    assert!(
        outcome.stdout.contains("dev        4 utterances"),
        "no utterance may be lost: {outcome}"
    );
    sandbox.train(&["run.toml", "--out", "run"]).succeeds();
}

#[test]
fn an_id_given_twice_names_both_lines() {
    let sandbox = Sandbox::with_tones();
    sandbox.append("train.jsonl", &line("audio/train-001.wav", 1.0, "a", "train-003"));
    refused(
        &sandbox,
        &["train.jsonl:13: id \"train-003\" is also on line 4", "give each utterance its own"],
    );
}

#[test]
fn recordings_of_one_name_in_two_folders_are_two_utterances() {
    let sandbox = Sandbox::with_tones();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    sandbox.utterance("x/take", "a", &mut rng);
    sandbox.utterance("y/take", "b", &mut rng);
    let unnamed = |path: &str, text: &str| {
        format!("{{\"audio_filepath\": \"{path}\", \"text\": \"{text}\"}}\n")
    };
    sandbox.append(
        "train.jsonl",
        &(unnamed("audio/x/take.wav", "a") + &unnamed("audio/y/take.wav", "b")),
    );
    let outcome = sandbox.check(&["run.toml"]).succeeds();
    assert!(outcome.stdout.contains("train     14 utterances"), "{outcome}");
}

#[test]
fn a_manifest_without_utterances_is_refused() {
    for contents in ["", "\n  \n\r\n", "\u{feff}"] {
        let sandbox = Sandbox::with_tones();
        sandbox.write("dev.jsonl", contents);
        refused(&sandbox, &["dev.jsonl: the manifest holds no utterances"]);
    }
}

#[test]
fn a_duration_or_an_offset_that_is_no_time_is_named_by_its_line() {
    for (fields, words) in [
        (r#""duration": 0"#, "\"duration\" is 0, expected seconds above 0"),
        (r#""duration": -1.5"#, "\"duration\" is -1.5, expected seconds above 0"),
        (r#""offset": -0.1"#, "\"offset\" is -0.1, expected seconds, 0 or more"),
        (r#""duration": "2 s""#, "\"duration\" is \"2 s\", expected a number"),
    ] {
        let sandbox = Sandbox::with_tones();
        with_line(
            &sandbox,
            2,
            &format!(r#"{{"audio_filepath": "audio/train-001.wav", "text": "a", {fields}}}"#),
        );
        refused(&sandbox, &["train.jsonl:2:", words]);
    }
}

#[test]
fn a_duration_that_disagrees_with_the_audio_stops_the_run_unless_the_config_trusts_the_audio() {
    let sandbox = Sandbox::with_tones();
    sandbox.write("audio/long.wav", crate::tones::wav(8_000, 1, &[100; 8_000]));
    sandbox.append("train.jsonl", &line("audio/long.wav", 2.5, "a", "long"));
    refused(
        &sandbox,
        &[
            "train.jsonl:13: ",
            "says 2.5 s but",
            "long.wav has 1.000 s",
            "data.duration_mismatch = \"warn\"",
        ],
    );
    let trusting = sandbox
        .train(&["run.toml", "--out", "run", "--set", "data.duration_mismatch=warn"])
        .succeeds();
    assert!(
        trusting.stderr.contains("1 duration in the manifest disagrees with the audio"),
        "{trusting}"
    );
}

#[test]
fn a_manifest_of_no_known_kind_says_what_is_read() {
    let sandbox = Sandbox::with_tones();
    sandbox.write("train.jsonl", "");
    sandbox.write("page.html", "<!DOCTYPE html>");
    let words =
        ["page.html: cannot read the manifest: of no kind known here", "<!DOCTYPE html>", "Kaldi"];
    sandbox.check(&["run.toml", "--set", "data.train=page.html"]).fails(3, &words);
}

#[test]
fn a_segment_beyond_its_recording_is_refused() {
    let sandbox = Sandbox::with_tones();
    sandbox.write("audio/long.wav", crate::tones::wav(8_000, 1, &[100; 8_000]));
    let line = r#"{"audio_filepath": "audio/long.wav", "text": "a", "offset": 0.5, "duration": 2.0, "id": "late"}"#;
    sandbox.append("train.jsonl", line);
    refused(&sandbox, &["train.jsonl:13: ", "late", "0.5 s", "1.000 s"]);
}
