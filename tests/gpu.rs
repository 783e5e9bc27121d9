//! The GPU path through wgpu, on whatever adapter there is: in CI, Mesa's software Vulkan.
//!
//! These tests fail where there is no adapter; a build with the `wgpu` feature promises one.

use std::sync::Arc;

use asr::ctc::{BucketTargets, CtcConfig, LongTargets, ctc_loss, look_at_targets, self_test};
use asr::device::{Api, open_gpu};
use asr::model::{AcousticModel, ModelConfig, Pass};
use asr::optim::{global_norm, with_stable_ids};
use asr::policy::{load_weights, weights_to_bytes};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};

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
