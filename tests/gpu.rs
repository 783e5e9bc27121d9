//! The GPU path through wgpu, on whatever adapter there is: in CI, Mesa's software Vulkan.
//!
//! These tests fail where there is no adapter; a build with the `wgpu` feature promises one.

use std::sync::Arc;

use asr::ctc::{BucketTargets, CtcConfig, LongTargets, ctc_loss, look_at_targets, self_test};
use asr::device::{Api, open_gpu};
use asr::extract::Extractor;
use asr::features::{LogMel, Preset};
use asr::model::{AcousticModel, ModelConfig, Pass};
use asr::optim::{global_norm, with_stable_ids};
use asr::policy::{load_weights, weights_to_bytes};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::sandbox::Sandbox;

fn adapter() -> Device {
    open_gpu(Api::Wgpu, 0).expect("a wgpu adapter; in CI, Mesa's lavapipe")
}

#[test]
fn ctc_through_fusion_and_autodiff_agrees_with_the_f64_reference() {
    let error =
        self_test::run(&adapter()).expect("losses and gradients are finite where they must be");
    assert!(error <= self_test::TOLERANCE, "{error}");
}

#[test]
fn the_device_says_which_targets_it_sweeps_at_once_and_refuses_others_if_told_to() {
    let buckets = [(100, 10, "short"), (20_000, 5_000, "long"), (200_000, 50_000, "longer")]
        .map(|(num_frames, labels, id)| BucketTargets { num_frames, targets: vec![(labels, id)] });
    let look = |long_targets| {
        let config = CtcConfig { long_targets, ..CtcConfig::default() };
        look_at_targets(&adapter(), "wgpu:0", &buckets, &config)
    };
    let text = look(LongTargets::Global).expect("long targets are allowed");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("of shared memory") && lines[0].contains("50000 (longer)"), "{text}");
    assert!(!lines[1].contains("strips") && lines[3].contains("strips"), "{text}");
    let refusal = look(LongTargets::Error).expect_err("50,000 labels fit no cube").to_string();
    assert!(refusal.contains("longer") && refusal.contains("ctc.long_targets"), "{refusal}");
}

#[test]
fn features_on_the_device_are_those_of_the_host_whatever_the_padding() {
    let (lens, device) = ([9_000, 0, 4_321, 160], adapter());
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let signals = lens.map(|len| -> Vec<f32> {
        (0..len).map(|i| (i as f32 * 0.05).sin() * 0.2 + rng.random_range(-0.3..0.3)).collect()
    });
    for preset in [Preset::Nemo, Preset::Kaldi, Preset::Espnet] {
        let config = preset.settings(16_000);
        let extractor = Extractor::new(&config, &device).expect("the device takes it");
        let extractor = Arc::new(extractor);
        let on_device = |num_frames: usize| {
            let num_samples = config.most_samples(num_frames);
            let mut samples = vec![0.0; lens.len() * num_samples];
            for (row, signal) in samples.chunks_mut(num_samples).zip(&signals) {
                row[..signal.len()].copy_from_slice(signal);
            }
            let device = device.clone().autodiff();
            let made = extractor.features(samples, num_samples, lens.to_vec(), num_frames, &device);
            assert_eq!(made.dims(), [lens.len(), num_frames, config.num_mels]);
            // Fused with what follows, as in a model.
            let made: Vec<f32> = (made * 2.0 * 0.5).into_data().iter::<f32>().collect();
            let rows = made.chunks(num_frames * config.num_mels).zip(lens);
            let valid = rows.map(|(row, len)| {
                let (valid, padding) = row.split_at(config.num_frames(len) * config.num_mels);
                assert!(padding.iter().all(|x| *x == 0.0), "padding is 0");
                valid.to_vec()
            });
            valid.collect::<Vec<_>>()
        };
        let (made, wider) = (on_device(72), on_device(104));
        assert!(made == wider, "{preset}: padding changes features");
        let host = LogMel::new(&config).expect("a preset has a meaning");
        for (made, signal) in made.iter().zip(&signals) {
            let want = host.compute(&mut host.scratch(), signal).data;
            assert_eq!(made.len(), want.len());
            for (got, want) in made.iter().zip(&want) {
                assert!((got - want).abs() < 1e-4, "{preset}: {got} for {want}");
            }
        }
    }
}

#[test]
fn a_training_with_features_on_the_device_goes_as_with_the_hosts() {
    let sandbox = Sandbox::with_tones();
    let masks = sandbox.read("run.toml").replace("_masks = 0", "_masks = 2");
    sandbox.write("run.toml", masks);
    let losses = |on: &str| -> Vec<f64> {
        let set = format!("data.features_on={on}");
        let args = ["run.toml", "--out", on, "--set", &set, "--set", "train.epochs=1"];
        let outcome =
            sandbox.run("asr-train", &[&args[..], &["--device", "wgpu"]].concat()).succeeds();
        assert_eq!(outcome.stderr.contains("features: on wgpu:0"), on == "device", "{outcome}");
        let metrics = sandbox.read(&format!("{on}/metrics.jsonl"));
        let record = |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        metrics.lines().filter_map(|line| record(line)["loss"].as_f64()).collect()
    };
    let (host, device) = (losses("host"), losses("device"));
    assert!(host.len() == device.len() && host.len() > 1, "{host:?} {device:?}");
    for (host, device) in host.iter().zip(&device) {
        assert!((host - device).abs() < 1e-2 * host, "{host} {device}");
    }
    // A run of the GPU's features is measured, and goes on, on a CPU.
    sandbox.eval(&["device", "--manifest", "dev.jsonl"]).succeeds();
    let outcome = sandbox.train(&["run.toml", "--out", "device"]).succeeds();
    assert!(outcome.stderr.contains("resumed at step"), "{outcome}");
}

/// Loss and global gradient norm of one training step.
fn step(model: AcousticModel, device: &Device) -> (f64, f64) {
    let (batch, frames, mels) = (3, 48, 16);
    let values: Vec<f32> = (0..batch * frames * mels).map(|i| (i as f32 * 0.37).sin()).collect();
    let features = Tensor::from_data(TensorData::new(values, [batch, frames, mels]), device);
    let (logits, lens) = model.forward(features, &[48, 40, 25], &mut Pass::training(1));
    let [_, num_frames, num_classes] = logits.dims();
    let labels = [vec![0, 1, 2, 2], vec![3], vec![]];
    let problem = asr_kernels::Problem::new(num_frames, num_classes, 5, lens, &labels)
        .expect("the labels are valid");
    let loss = ctc_loss(logits, Arc::new(problem)).sum();
    let value: f32 = loss.clone().into_scalar();
    let grads = GradientsParams::from_grads(loss.backward(), &model);
    let norm: f32 = global_norm(&grads, &model).expect("there are gradients").into_scalar();
    (value.into(), norm.into())
}

#[test]
fn a_training_step_has_the_loss_and_the_gradient_of_the_cpu() {
    let config = ModelConfig {
        hidden_size: 32,
        num_layers: 1,
        num_heads: 2,
        subsampling_factor: 4,
        subsampling_channels: 8,
        attention_dropout: 0.0,
        dropout: 0.0,
        ..Default::default()
    };
    let init = |device: &Device| with_stable_ids(config.init(16, 6, device));
    let (cpu, gpu) = (Device::flex().autodiff(), adapter().autodiff());
    let model = init(&cpu);
    let weights = weights_to_bytes(&model).expect("CPU weights can be read");
    let copy = with_stable_ids(load_weights(init(&gpu), weights).expect("the sizes are the same"));
    let (want, got) = (step(model, &cpu), step(copy, &gpu));
    assert!((want.0 - got.0).abs() < 1e-3 * want.0, "loss {got:?} for {want:?}");
    assert!((want.1 - got.1).abs() < 1e-2 * want.1, "gradient norm {got:?} for {want:?}");
}
