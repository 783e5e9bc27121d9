//! Runs that are stopped and go on: nothing is lost, and nothing can be told from the result.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Sandbox, files_below};
use crate::tones::CONFIG;

/// A run of some seconds with everything random in it.
fn long_run() -> Sandbox {
    let sandbox = Sandbox::new();
    let config = CONFIG
        .replace("epochs = 20", "epochs = 30")
        .replace("dropout = 0.0", "dropout = 0.1")
        .replace("_masks = 0", "_masks = 1")
        .replace("num_buckets = 2", "num_buckets = 3\nspeeds = [0.9, 1.0, 1.1]");
    sandbox.write("run.toml", config + &sandbox.noises_and_rooms());
    sandbox.corpus("train", 40, 1);
    sandbox.corpus("dev", 6, 2);
    sandbox
}

fn num_lines(sandbox: &Sandbox, run: &str) -> usize {
    fs::read_to_string(sandbox.path(&format!("{run}/metrics.jsonl")))
        .map_or(0, |text| text.lines().count())
}

/// All that is learnt, and nothing of how fast.
fn learnt(sandbox: &Sandbox, run: &str) -> Vec<Value> {
    let strip = |line: &str| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        for key in ["wall_s", "audio_s_per_s"] {
            record.as_object_mut().unwrap().remove(key);
        }
        record
    };
    sandbox.read(&format!("{run}/metrics.jsonl")).lines().map(strip).collect()
}

#[test]
fn an_interrupted_run_is_saved_and_goes_on_as_if_it_had_not_been() {
    let sandbox = long_run();
    sandbox.train(&["run.toml", "--out", "whole"]).succeeds();
    let total = num_lines(&sandbox, "whole");
    for (signal, code, after) in [("INT", 130, total / 4), ("TERM", 143, total / 2)] {
        let mut running = sandbox.start_train(&["run.toml", "--out", "parts"]);
        running.wait_until("it was interrupted", || num_lines(&sandbox, "parts") >= after);
        running.signal(signal);
        let outcome = running.wait();
        assert_eq!(outcome.code, code, "{outcome}");
        assert!(
            outcome.stderr.contains("interrupted at step") && outcome.stderr.contains("resumes"),
            "{outcome}"
        );
        assert!(num_lines(&sandbox, "parts") < total, "the run was over before the signal");
        sandbox.assert_nothing_half_written("parts");
        // What was saved is a checkpoint like any other.
        sandbox
            .eval(&["parts/checkpoints/last", "--manifest", "dev.jsonl", "--out", "measured"])
            .succeeds();
    }
    // A power cut loses what came after the last checkpoint, and nothing else.
    let mut running = sandbox.start_train(&["run.toml", "--out", "parts"]);
    running.wait_until("it was killed", || num_lines(&sandbox, "parts") >= total * 3 / 4);
    running.kill();
    let outcome = sandbox.train(&["run.toml", "--out", "parts"]).succeeds();
    assert!(outcome.stderr.contains("resumed at step"), "{outcome}");
    let (whole, parts) = (learnt(&sandbox, "whole"), learnt(&sandbox, "parts"));
    for (whole, part) in whole.iter().zip(&parts) {
        assert_eq!(whole, part, "the first line that differs");
    }
    assert_eq!(whole.len(), parts.len());
    let weights = |run: &str| {
        fs::read(sandbox.path(&format!("{run}/checkpoints/last/model.safetensors"))).unwrap()
    };
    assert!(weights("whole") == weights("parts"), "the same losses from other weights");
}

/// Runs to the end, with an interruption as soon as there are so many lines of metrics.
fn interrupted(sandbox: &Sandbox, args: &[&str], run: &str, after: usize) {
    let args = [args, &["--out", run]].concat();
    let mut running = sandbox.start_train(&args);
    running.wait_until("it was interrupted", || num_lines(sandbox, run) >= after);
    running.signal("INT");
    let outcome = running.wait();
    assert_eq!(outcome.code, 130, "{outcome}");
    sandbox.train(&args).succeeds();
}

#[track_caller]
fn assert_same_run(sandbox: &Sandbox, one: &str, other: &str) {
    let (a, b) = (learnt(sandbox, one), learnt(sandbox, other));
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(a, b, "the first line that differs");
    }
    assert_eq!(a.len(), b.len());
    let weights =
        |run| fs::read(sandbox.path(&format!("{run}/checkpoints/last/model.safetensors"))).unwrap();
    assert!(weights(one) == weights(other), "the same losses from other weights");
}

fn copy(sandbox: &Sandbox, from: &str, to: &str) {
    let status = std::process::Command::new("cp")
        .args(["-a", from, to])
        .current_dir(sandbox.root())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_recording_that_goes_bad_is_left_out_of_the_resumed_run_too() {
    let sandbox = long_run();
    let uncached = ["--set", "data.cache_audio_mb=0", "--set", "data.max_bad_percent=5"];
    let args = [&["run.toml"], &uncached[..]].concat();
    let with_out = |run: &'static str| [&args[..], &["--out", run]].concat();
    let mut running = sandbox.start_train(&with_out("run"));
    running.wait_until("a recording vanished", || num_lines(&sandbox, "run") >= 10);
    fs::remove_file(sandbox.path("audio/train-007.wav")).unwrap();
    // Some epochs more.
    running.wait_until("it was interrupted", || num_lines(&sandbox, "run") >= 80);
    running.signal("INT");
    let outcome = running.wait();
    assert_eq!(outcome.code, 130, "{outcome}");
    let named = "left out from here on (1 of 40 so far)";
    let place = "train.jsonl:8: utterance \"train-007\"";
    assert!(outcome.stderr.contains(named) && outcome.stderr.contains(place), "{outcome}");
    let counts = |text: &str| {
        let line = text.lines().find(|line| line.contains("batches an epoch")).unwrap();
        line.split(", resumed").next().unwrap().to_owned()
    };
    let before = counts(&outcome.stderr);

    // What nobody wrote down stops the run, as it does a new one.
    copy(&sandbox, "run", "older");
    fs::remove_file(sandbox.path("older/lengths.bin")).unwrap();
    sandbox.train(&with_out("older")).fails(3, &["1 of 40 utterances", "train-007.wav"]);
    copy(&sandbox, "run", "parts");
    let outcome = sandbox.train(&with_out("run")).succeeds();
    assert!(outcome.stderr.contains(named) && outcome.stderr.contains(place), "{outcome}");
    assert_eq!(counts(&outcome.stderr), before, "as many batches as with the recording");
    assert!(outcome.stderr.contains("left out: 1 recording"), "counted at the end: {outcome}");
    let after = num_lines(&sandbox, "parts") + 40;
    interrupted(&sandbox, &args, "parts", after);
    assert_same_run(&sandbox, "run", "parts");

    for name in ["train-001", "train-002"] {
        fs::remove_file(sandbox.path(&format!("audio/{name}.wav"))).unwrap();
    }
    let longer = [&with_out("run")[..], &["--set", "train.epochs=40"]].concat();
    sandbox.train(&longer).fails(3, &["3 of 40", "data.max_bad_percent = 5"]);
    sandbox.write("run/lengths.bin", "nothing of the kind");
    sandbox.train(&longer).fails(1, &["run/lengths.bin", "remove it"]);
}

#[test]
fn a_run_on_tar_files_goes_on_as_if_it_had_not_been_interrupted() {
    let sandbox = long_run();
    let manifest = sandbox.read("train.jsonl");
    for (number, line) in manifest.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let bytes = fs::read(sandbox.path(line["audio_filepath"].as_str().unwrap())).unwrap();
        let key = format!("shard{}/{}", number / 10, line["id"].as_str().unwrap());
        sandbox.write(&format!("{key}.wav"), bytes);
        sandbox.write(&format!("{key}.txt"), line["text"].as_str().unwrap());
    }
    for shard in 0..4 {
        sandbox.tar(&format!("shard{shard}"), ".", &format!("tone_{shard}.tar"));
    }
    let args = |buffer_mb: &'static str| {
        let sets = ["data.train=tone_{0..3}.tar", "data.cache_audio_mb=0", buffer_mb];
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        ["run.toml"].into_iter().chain(sets).collect::<Vec<_>>()
    };
    for (buffer_mb, whole, parts) in [
        ("data.tar_buffer_mb=1", "whole", "parts"),
        ("data.tar_buffer_mb=0", "whole-by-place", "parts-by-place"),
    ] {
        let args = args(buffer_mb);
        sandbox.train(&[&args[..], &["--out", whole]].concat()).succeeds();
        interrupted(&sandbox, &args, parts, num_lines(&sandbox, whole) / 3);
        assert_same_run(&sandbox, whole, parts);
    }
    assert_ne!(learnt(&sandbox, "whole")[0], learnt(&sandbox, "whole-by-place")[0]);
    let words = ["tone_{0..4}.tar", "1 of its 5 files are not there", "tone_4.tar"];
    sandbox.train(&["run.toml", "--set", "data.train=tone_{0..4}.tar"]).fails(3, &words);
}

#[test]
fn a_second_signal_may_cut_the_save_short_and_the_run_still_goes_on() {
    let sandbox = long_run();
    for signal in ["INT", "TERM"] {
        let mut running = sandbox.start_train(&["run.toml", "--out", "run"]);
        let before = num_lines(&sandbox, "run");
        running.wait_until("its next line", || num_lines(&sandbox, "run") > before);
        running.signal(signal);
        running.signal(signal);
        let code = running.wait().code;
        assert_eq!(code, if signal == "INT" { 130 } else { 143 });
    }
    sandbox.train(&["run.toml", "--out", "run"]).succeeds();
    sandbox.assert_nothing_half_written("run");
}

#[test]
fn resume_never_refuses_a_run_and_touches_nothing() {
    let sandbox = Sandbox::with_trained_run();
    let contents = || -> Vec<_> {
        let read = |path: std::path::PathBuf| (fs::read(&path).unwrap_or_default(), path);
        files_below(&sandbox.path("run")).into_iter().map(read).collect()
    };
    let before = contents();
    let words = ["run already holds a run", "--resume auto", "--out DIR"];
    sandbox.train(&["run.toml", "--out", "run", "--resume", "never"]).fails(2, &words);
    assert!(contents() == before, "a refused run changed the directory");
}

/// A short run that is done, in `run`.
fn finished_run() -> Sandbox {
    let sandbox = Sandbox::with_tones();
    sandbox.train(&["run.toml", "--out", "run"]).succeeds();
    sandbox
}

#[test]
fn a_complete_run_is_not_trained_again_and_is_measured_again() {
    let sandbox = finished_run();
    let before = sandbox.read("run/metrics.jsonl");
    let outcome =
        sandbox.train(&["run.toml", "--out", "run", "--set", "data.test=dev.jsonl"]).succeeds();
    assert!(outcome.stderr.contains("already complete"), "{outcome}");
    assert!(outcome.stdout.contains("%WER"), "{outcome}");
    assert_eq!(sandbox.read("run/metrics.jsonl"), before);
}

#[test]
fn a_run_can_start_from_another_runs_checkpoint() {
    let sandbox = finished_run();
    let before = files_below(&sandbox.path("run"));
    let more = ["run.toml", "--out", "more", "--resume", "run", "--set", "train.epochs=3"];
    let outcome = sandbox.train(&more).succeeds();
    assert!(outcome.stderr.contains("resumed at step"), "{outcome}");
    assert!(sandbox.path("more/checkpoints/last/manifest.json").is_file());
    assert_eq!(files_below(&sandbox.path("run")), before);
}

#[test]
fn leftovers_of_a_save_that_was_cut_short_are_swept() {
    let sandbox = finished_run();
    sandbox.write("run/checkpoints/.step-000001.partial/model.safetensors", "half");
    let torn = sandbox.read("run/metrics.jsonl") + "{\"step\": 9";
    sandbox.write("run/metrics.jsonl", torn);
    sandbox.train(&["run.toml", "--out", "run", "--set", "train.epochs=3"]).succeeds();
    sandbox.assert_nothing_half_written("run");
}
