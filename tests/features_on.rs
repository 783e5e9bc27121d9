//! `data.features_on`: what it changes on a CPU (nothing), and what it refuses.

use std::fs;

use crate::sandbox::Sandbox;

const ON_DEVICE: [&str; 2] = ["--set", "data.features_on=device"];

#[test]
fn on_a_cpu_device_means_host_to_the_bit_and_a_run_may_go_on_with_either() {
    let sandbox = Sandbox::with_tones();
    let config = sandbox.read("run.toml").replace("_masks = 0", "_masks = 1");
    sandbox.write("run.toml", config);
    let said = "features: on the host";
    let host = sandbox.train(&["run.toml", "--out", "host"]).succeeds();
    assert!(!host.stderr.contains(said), "{host}");
    let args = ["run.toml", "--out", "device"];
    let half = [&args[..], &ON_DEVICE, &["--set", "train.epochs=1"]].concat();
    let device = sandbox.train(&half).succeeds();
    assert!(device.stderr.contains(said), "{device}");
    let saved = sandbox.read("device/config.toml");
    assert!(saved.contains("features_on = \"device\""), "what was asked for is saved: {saved}");
    sandbox.eval(&["device", "--manifest", "dev.jsonl"]).succeeds();
    let whole = sandbox.train(&args).succeeds();
    assert!(whole.stderr.contains("resumed at step"), "{whole}");
    let weights = |run: &str| {
        fs::read(sandbox.path(&format!("{run}/checkpoints/last/model.safetensors"))).unwrap()
    };
    let again = [&["run.toml", "--out", "again"][..], &ON_DEVICE].concat();
    sandbox.train(&again).succeeds();
    assert!(weights("host") == weights("again"), "the same features give the same weights");
}

#[test]
fn features_that_no_device_computes_are_refused_by_key_before_anything_is_read() {
    let sandbox = Sandbox::with_tones();
    for (set, key) in [
        ("features.dither=1e-5", "features.dither = 0.00001"),
        ("features.n_fft=400", "features.n_fft = 400"),
        ("features.dynamic_range=8.0", "features.dynamic_range = 8"),
    ] {
        let args = [&["run.toml", "--out", "run"][..], &ON_DEVICE, &["--set", set]].concat();
        sandbox.train(&args).fails(2, &[key, "data.features_on = \"host\""]);
        assert!(!sandbox.path("run").exists());
    }
}
