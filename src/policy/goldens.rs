//! Our model with Hugging Face's weights against Hugging Face's own code, see
//! scripts/make_parakeet_goldens.py for how its answers were made.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asr_kernels::Problem;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};

use super::parakeet::Counterpart;
use super::source::{Source, shapes};
use super::tensors::{StoredTensor, Tensors, parse, read_file};
use super::weights::weights_to_bytes;
use crate::ctc::ctc_loss;
use crate::model::{AcousticModel, ModelConfig, Pass};
use crate::optim::with_stable_ids;
use crate::tokens::Tokens;

const CASES: [&str; 3] = ["factor8", "factor4", "factor2"];
/// Of logits, in f32.
const LOGITS: f32 = 1e-4;
/// Of gradients and of what training leaves behind.
const GRADIENTS: f32 = 1e-3;

struct Case {
    name: &'static str,
    config: ModelConfig,
    goldens: Tensors,
    model: AcousticModel,
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parakeet").join(name)
}

/// The characters of the cases, a symbol a letter.
fn tokens(name: &str) -> Tokens {
    let text = match name {
        "factor8" => " abcde",
        "factor4" => "xy",
        _ => "pqrs",
    };
    Tokens::from_transcripts([text]).unwrap()
}

impl Case {
    /// The model of a case, its head included.
    fn load(name: &'static str, device: &Device) -> Self {
        // The directory holds no vocabulary in this program's words, without which the head is left out.
        let copied = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(directory(name)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copied.path().join(path.file_name().unwrap())).unwrap();
        }
        let tokens = tokens(name);
        fs::write(copied.path().join("tokens.txt"), tokens.to_text()).unwrap();
        let source = Source::open(copied.path()).unwrap();
        let described = source.describe().unwrap();
        let config =
            ModelConfig { dropout: 0.0, attention_dropout: 0.0, ..described.model.unwrap() };
        config.validate().unwrap();
        let num_mels = described.features.unwrap().num_mels;
        let model = config.init(num_mels, tokens.num_classes(), device);
        let tensors = shapes(&model).len();
        let (model, started) = source.start(with_stable_ids(model), &tokens).unwrap();
        assert_eq!((started.matched, started.new_head), (tensors, None), "{name}");
        let goldens = directory(name).join("goldens.safetensors");
        let (goldens, _) = read_file(&goldens, &|_| true).unwrap();
        Self { name, config, goldens, model: with_stable_ids(model) }
    }

    fn integers(&self, name: &str) -> Vec<usize> {
        self.goldens[name].values.iter().map(|value| *value as usize).collect()
    }

    fn features(&self, name: &str, device: &Device) -> Tensor<3> {
        let StoredTensor { shape, values } = self.goldens[name].clone();
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// The labels of the first `count` utterances.
    fn labels(&self, count: usize) -> Vec<Vec<u32>> {
        let mut all = self.integers("labels").into_iter().map(|label| label as u32);
        let lens = self.integers("label_lens");
        lens[..count].iter().map(|len| all.by_ref().take(*len).collect()).collect()
    }

    /// Logits and the loss of each utterance, held against the goldens; then the gradient of the sum of
    /// the losses over the number of labels.
    fn step(&self, prefix: &str, frame_lens: &[usize], pass: &mut Pass) -> GradientsParams {
        let device = Device::flex().autodiff();
        let features = self.features(&format!("{prefix}features"), &device);
        let (logits, output_lens) = self.model.forward(features, frame_lens, pass);
        let [_, t, c] = logits.dims();
        let want = &self.goldens[&format!("{prefix}logits")];
        let got: Vec<f32> = logits.to_data().try_to_vec().unwrap();
        assert_eq!(want.shape, logits.dims(), "{}", self.name);
        let mut worst = 0.0_f32;
        for (row, len) in output_lens.iter().enumerate() {
            let valid = row * t * c..(row * t + len) * c;
            let (got, want) = (&got[valid.clone()], &want.values[valid]);
            worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(worst, f32::max);
        }
        let size = want.values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        assert!(size > 0.5, "{}: logits of {size} would hide a fault", self.name);
        eprintln!("{} {prefix}logits: off by {worst:.1e} of {size:.1}", self.name);
        assert!(worst < LOGITS, "{} {prefix}: logits off by {worst}", self.name);

        let labels = self.labels(frame_lens.len());
        let num_labels: usize = labels.iter().map(Vec::len).sum();
        let blank = tokens(self.name).blank();
        let problem = Problem::new(t, c, blank, output_lens, &labels).unwrap();
        let nll = ctc_loss(logits, Arc::new(problem));
        let losses: Vec<f32> = nll.to_data().try_to_vec().unwrap();
        for (got, want) in losses.iter().zip(&self.goldens[&format!("{prefix}nll")].values) {
            assert!((got - want).abs() < 1e-3 * (1.0 + want.abs()), "{}: {got} {want}", self.name);
        }
        let grads = (nll.sum() / num_labels as f64).backward();
        GradientsParams::from_grads(grads, &self.model)
    }

    /// Holds the gradients against the goldens of `prefix`; how many there were.
    fn compare(&self, prefix: &str, grads: &GradientsParams) -> usize {
        let mut values = Gradients { grads, found: Vec::new() };
        self.model.visit(&mut values);
        let named = shapes(&self.model);
        assert_eq!(values.found.len(), named.len());
        let mut compared = 0;
        for ((name, shape), values) in named.into_iter().zip(values.found) {
            let there = Counterpart::of(&name, &shape).unwrap();
            let Some(want) = self.goldens.get(&format!("{prefix}grad.{}", there.name)) else {
                continue;
            };
            let got = there.export(&StoredTensor { shape, values: values.unwrap() });
            assert_eq!(got.shape, want.shape, "{name}");
            for (got, want) in got.values.iter().zip(&want.values) {
                let off = (got - want).abs();
                assert!(off < GRADIENTS * (1.0 + want.abs()), "{} {name}: {got} {want}", self.name);
            }
            compared += 1;
        }
        compared
    }
}

/// The gradient of each parameter, in the order of the module.
struct Gradients<'a> {
    grads: &'a GradientsParams,
    found: Vec<Option<Vec<f32>>>,
}

impl ModuleVisitor for Gradients<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let grad = self.grads.get::<D>(param.id);
        self.found.push(grad.map(|grad| grad.to_data().try_to_vec().unwrap()));
    }
}

#[test]
fn output_lengths_are_parakeets_for_every_length() {
    for name in CASES {
        let case = Case::load(name, &Device::flex());
        let lens: Vec<usize> = (1..400).map(|len| case.config.output_len(len)).collect();
        assert_eq!(lens, case.integers("subsampled"), "{name}");
        let frame_lens = case.integers("frame_lens");
        let lens: Vec<usize> = frame_lens.iter().map(|len| case.config.output_len(*len)).collect();
        assert_eq!(lens, case.integers("output_lens"), "{name}");
    }
}

#[test]
fn logits_losses_and_gradients_are_parakeets_behind_padding_masks() {
    for name in CASES {
        let case = Case::load(name, &Device::flex().autodiff());
        let grads = case.step("", &case.integers("frame_lens"), &mut Pass::inference());
        let compared = case.compare("", &grads);
        let statistics = 2 * case.config.num_layers;
        assert_eq!(compared, shapes(&case.model).len() - statistics, "{name}");
    }
}

#[test]
fn training_normalises_by_the_batch_and_moves_the_buffers_as_parakeet_does() {
    let case = Case::load("factor8", &Device::flex().autodiff());
    let mut pass = Pass::training(1);
    let grads = case.step("train.", &[40, 40], &mut pass);
    assert!(case.compare("train.", &grads) > 20);
    case.model.absorb(&[pass]);
    let bytes = weights_to_bytes(&case.model.valid()).unwrap();
    let (after, _) = parse("after".as_ref(), &bytes, &|name| name.contains("running")).unwrap();
    assert_eq!(after.len(), 2 * case.config.num_layers);
    for (name, got) in after {
        let there = Counterpart::of(&name, &got.shape).unwrap();
        let want = &case.goldens[&format!("train.after.{}", there.name)];
        for (got, want) in got.values.iter().zip(&want.values) {
            assert!((got - want).abs() < 1e-5 * (1.0 + want.abs()), "{name}: {got} {want}");
        }
    }
}
