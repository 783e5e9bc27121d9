//! Noise, rooms and gain: what is added to training utterances, and what stops a run that cannot add it.

use std::fs;

use crate::sandbox::Sandbox;

/// A tone corpus whose config adds noise, rooms and gain.
fn varied() -> Sandbox {
    let sandbox = Sandbox::with_tones();
    let config = sandbox.read("run.toml") + &sandbox.noises_and_rooms();
    sandbox.write("run.toml", config);
    sandbox
}

/// The losses of a run, as they were written.
fn losses(sandbox: &Sandbox, run: &str) -> Vec<String> {
    let metrics = sandbox.read(&format!("{run}/metrics.jsonl"));
    let loss =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["loss"].to_string();
    metrics.lines().map(loss).collect()
}

#[test]
fn the_number_of_workers_and_the_caches_change_no_loss() {
    let sandbox = varied();
    sandbox.train(&["run.toml", "--out", "one"]).succeeds();
    let set = ["data.workers=3", "data.cache_audio_mb=0", "augment.cache_audio_mb=0"];
    let args: Vec<&str> = ["run.toml", "--out", "three"]
        .into_iter()
        .chain(set.into_iter().flat_map(|value| ["--set", value]))
        .collect();
    sandbox.train(&args).succeeds();
    assert_eq!(losses(&sandbox, "one"), losses(&sandbox, "three"));
    sandbox.train(&["run.toml", "--out", "dry", "--set", "augment.rir.manifests=[]"]).succeeds();
    assert_ne!(losses(&sandbox, "one"), losses(&sandbox, "dry"), "rooms are heard");
}

#[test]
fn a_noise_that_is_not_there_stops_a_run_before_its_first_step() {
    let sandbox = varied();
    fs::remove_file(sandbox.path("audio/noise.wav")).unwrap();
    let words = ["noise.jsonl:1", "audio/noise.wav", "No such file"];
    let outcome = sandbox.train(&["run.toml", "--out", "run"]).fails(3, &words);
    assert!(!outcome.stderr.contains("step"), "{outcome}");
    sandbox.check(&["run.toml"]).fails(3, &words);
    fs::remove_file(sandbox.path("noise.jsonl")).unwrap();
    sandbox.check(&["run.toml"]).fails(3, &["noise.jsonl: cannot read the manifest of clips"]);
}

#[test]
fn a_silent_noise_is_a_warning_and_a_recording_is_no_manifest() {
    let sandbox = varied();
    sandbox.write("audio/noise.wav", crate::tones::wav(8_000, 1, &[0; 4_000]));
    let outcome = sandbox.check(&["run.toml"]).succeeds();
    assert!(
        outcome.stdout.contains("warning  augment.noise: 1 clip is silent and adds nothing"),
        "{outcome}"
    );
    assert!(outcome.stdout.contains("noise.jsonl:1: audio/noise.wav"), "{outcome}");
    let set = "augment.noise.manifests=audio/noise.wav";
    let words =
        ["audio/noise.wav: ", "a recording, not a list", "{\"audio_filepath\":\"noise.wav\"}"];
    sandbox.check(&["run.toml", "--set", set]).fails(3, &words);
    let words = ["audio/noise.wav: ", "a recording, not a list", "\"text\":\"what is said\""];
    sandbox.check(&["run.toml", "--set", "data.train=audio/noise.wav"]).fails(3, &words);
    sandbox.write("noise.jsonl", "{\"path\": \"audio/noise.wav\"}\nx\n");
    let words = ["noise.jsonl: 2 faults", "the nearest is \"path\"", "noise.jsonl:2:1: expected"];
    sandbox.check(&["run.toml"]).fails(3, &words);
}

#[test]
fn a_room_of_zeros_is_refused() {
    let sandbox = varied();
    sandbox.write("audio/room.wav", crate::tones::wav(8_000, 1, &[0; 100]));
    sandbox.check(&["run.toml"]).fails(3, &["room.jsonl:1", "only zeros"]);
}

#[test]
fn a_setting_out_of_range_is_named() {
    for (argument, words) in [
        ("augment.gain.probability=2", "augment.gain.probability = 2"),
        ("augment.noise.min_snr_db=90", "augment.noise.min_snr_db = 90"),
        ("spec_augment.time_masks_per_frame=7", "spec_augment.time_masks_per_frame = 7"),
        ("data.max_bad_percent=-1", "data.max_bad_percent = -1"),
        ("data.quadratic_duration_s=-5", "data.quadratic_duration_s = -5"),
    ] {
        varied().check(&["run.toml", "--set", argument]).fails(2, &[words]);
    }
}
