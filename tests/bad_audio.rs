//! Recordings that cannot be used. All of a corpus's are found before training, and listed with
//! manifest, line and id.

use std::fs;

use crate::sandbox::{Sandbox, files_below};
use crate::tones::{line, wav};

/// A tone corpus with these bytes as its 13th recording.
fn with_recording(bytes: &[u8]) -> Sandbox {
    let sandbox = Sandbox::with_tones();
    sandbox.write("audio/odd.wav", bytes);
    sandbox.append(
        "train.jsonl",
        "{\"audio_filepath\": \"audio/odd.wav\", \"text\": \"a\", \"id\": \"odd\"}\n",
    );
    sandbox
}

#[track_caller]
fn refused(sandbox: &Sandbox, words: &[&str]) {
    let place: &[&str] =
        &["1 of 13 utterances", "train.jsonl:13: utterance \"odd\"", "audio/odd.wav"];
    sandbox.train(&["run.toml", "--out", "run"]).fails(3, &[place, words].concat());
    assert_eq!(files_below(&sandbox.path("run")), Vec::<std::path::PathBuf>::new());
}

fn second() -> Vec<u8> {
    wav(8_000, 1, &[100; 8_000])
}

#[test]
fn a_missing_recording_is_named() {
    let sandbox = with_recording(b"");
    fs::remove_file(sandbox.path("audio/odd.wav")).unwrap();
    refused(&sandbox, &["cannot open the recording", "No such file"]);
}

#[test]
fn an_empty_recording_is_named() {
    refused(&with_recording(b""), &["the file is empty (0 bytes)"]);
}

#[test]
fn a_recording_without_samples_is_named() {
    refused(&with_recording(&wav(8_000, 1, &[])), &["holds no samples"]);
}

#[test]
fn a_truncated_recording_says_what_was_promised_and_what_is_there() {
    refused(
        &with_recording(&second()[..10_000]),
        &["truncated", "promises", "holds", "fetch or export it again"],
    );
}

#[test]
fn a_header_cut_short_is_named() {
    refused(&with_recording(&second()[..30]), &["WAV"]);
}

#[test]
fn a_truncated_flac_file_is_named() {
    let flac =
        fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/audio/tone.flac")).unwrap();
    let sandbox = with_recording(&flac[..flac.len() / 2]);
    sandbox
        .train(&["run.toml", "--out", "run", "--set", "data.resample=allow"])
        .fails(3, &["odd.wav"]);
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(format!("{}/tests/fixtures/audio/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn recordings_of_any_kind_are_read_whatever_they_are_called() {
    let opus = cfg!(feature = "opus").then_some("digits.webm");
    for name in ["digits.aac", "stereo.flac", "tone.ogg"].into_iter().chain(opus) {
        with_recording(&fixture(name))
            .check(&["run.toml", "--set", "data.resample=allow", "--set", "data.channel=0"])
            .succeeds();
    }
}

#[test]
fn compressed_recordings_that_were_cut_are_named() {
    for name in ["digits.mp3", "digits.m4a", "digits.ogg", "digits.opus", "digits.webm"] {
        let bytes = fixture(name);
        with_recording(&bytes[..bytes.len() / 2])
            .check(&["run.toml", "--set", "data.resample=allow"])
            .fails(3, &["train.jsonl:13: odd: audio/odd.wav: "]);
    }
}

#[test]
fn encodings_that_cannot_be_read_are_named_with_a_way_out() {
    let mut unknown = second();
    unknown[20..22].copy_from_slice(&0x0161_u16.to_le_bytes());
    refused(&with_recording(&unknown), &["WAV with Windows Media audio", "sox"]);
    let mut sphere = b"NIST_1A\n   1024\nsample_rate -i 8000\nsample_count -i 10\n\
        sample_byte_format -s2 01\nsample_coding -s26 pcm,embedded-shorten-v2.00\nend_head\n"
        .to_vec();
    sphere.resize(1_024, b' ');
    sphere.extend(b"ajkg\x02");
    refused(&with_recording(&sphere), &["shorten", "sph2pipe"]);
}

#[test]
fn what_is_no_audio_says_what_it_is() {
    refused(&with_recording(b"<!DOCTYPE html><html><body>404</body></html>"), &["not audio"]);
    refused(
        &with_recording(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
        &["not audio"],
    );
}

#[test]
fn every_broken_recording_is_listed_at_once() {
    let sandbox = Sandbox::with_tones();
    for number in [2, 5, 9] {
        sandbox.write(&format!("audio/train-{number:03}.wav"), "");
    }
    let words =
        ["3 of 12 utterances", "train.jsonl:3:", "and 2 more: ", "train.jsonl:6", "train.jsonl:10"];
    sandbox.train(&["run.toml", "--out", "run"]).fails(3, &words);
}

#[test]
fn another_sample_rate_names_both_rates_and_the_option() {
    let sandbox = with_recording(&wav(16_000, 1, &[100; 16_000]));
    refused(&sandbox, &["16000 Hz", "8000 Hz", "data.resample = \"allow\""]);
    sandbox.train(&["run.toml", "--out", "run", "--set", "data.resample=allow"]).succeeds();
}

#[test]
fn stereo_names_the_option_and_the_chosen_channel_is_heard() {
    let sandbox = with_recording(&wav(8_000, 2, &[100; 16_000]));
    refused(&sandbox, &["2 channels", "data.channel = \"mix\""]);
    for choice in ["data.channel=mix", "data.channel=0"] {
        sandbox.check(&["run.toml", "--set", choice]).succeeds();
    }
    sandbox
        .check(&["run.toml", "--set", "data.channel=2"])
        .fails(3, &["train-000.wav", "asks for channel 2", "0 is the first"]);
}

#[test]
fn a_recording_too_short_or_too_long_is_left_out_and_counted() {
    let sandbox = with_recording(&wav(8_000, 1, &[100; 400]));
    sandbox.write("audio/long.wav", wav(8_000, 1, &[100; 48_000]));
    sandbox.append("train.jsonl", &line("audio/long.wav", 6.0, "a", "long"));
    let outcome =
        sandbox.train(&["run.toml", "--out", "run", "--set", "data.max_duration_s=4"]).succeeds();
    assert!(outcome.stderr.contains("left out: 1 shorter than data.min_duration_s"), "{outcome}");
    assert!(outcome.stderr.contains("left out: 1 longer than data.max_duration_s"), "{outcome}");
    assert!(outcome.stderr.contains("train     12 utterances"), "{outcome}");
}

#[test]
fn a_recording_longer_than_a_batch_names_both_options() {
    let sandbox = with_recording(&wav(8_000, 1, &[100; 160_000]));
    sandbox
        .train(&["run.toml", "--out", "run"])
        .fails(2, &["\"odd\"", "raise data.batch_s or lower data.max_duration_s"]);
}

#[test]
fn nothing_is_left_out_of_an_evaluation_however_short_or_long() {
    let sandbox = Sandbox::with_trained_run();
    let lengths = [("tick", 1), ("frame", 80), ("blip", 400), ("long", 320_000)];
    let manifest: String = lengths
        .iter()
        .map(|(id, len)| {
            let audio = format!("audio/{id}.wav");
            sandbox.write(&audio, wav(8_000, 1, &vec![100; *len]));
            line(&audio, *len as f64 / 8e3, "a b", id)
        })
        .collect();
    sandbox.write("odd.jsonl", manifest);
    let outcome = sandbox.eval(&["run", "--manifest", "odd.jsonl"]).succeeds();
    assert!(
        outcome.stdout.contains("/ 8, "),
        "8 reference words, whatever was recognised: {outcome}"
    );
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("run/eval/odd/results.json")).unwrap();
    assert_eq!(results["utterances"], 4);
    assert_eq!(results["infeasible"], 3, "the long one alone has frames enough");
}
