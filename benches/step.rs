//! Training steps and recognition of one batch, for scripts/bench_step.py: one JSON object on stdout.
//!
//!     cargo bench --bench step -- DIR [device=cpu|cuda:0] [checked=5] [timed=20] [split=1]
//!
//! DIR is a Hugging Face directory with `tokens.txt` and `batch.safetensors`: `features` `[B, T, F]`, f32,
//! and `labels` `[B, U]`, i64, no row padded. The losses of the first steps are told, for the script to hold
//! them to PyTorch's from the same weights; the steps after those are timed, from the features in host
//! memory to the loss read back. With `split` a step's batch is shared out as `asr-train` does with
//! `optim.accumulate` batches on a CPU: each part has cores of its own, and batch statistics of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use asr::cores::Cores;
use asr::ctc::ctc_loss;
use asr::device::{DeviceName, open_gpu};
use asr::model::{AcousticModel, ModelConfig, Pass};
use asr::optim::{OptimConfig, clip, global_norm, with_stable_ids};
use asr::policy::Source;
use asr::recognise::{problem, values};
use asr::tokens::Tokens;
use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor, TensorData};
use safetensors::SafeTensors;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let Some(directory) = words.first().map(Path::new) else {
        return Err("usage: step DIR [device=cpu|cuda:0] [checked=5] [timed=20]".into());
    };
    let option =
        |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let count = |key, default| option(key).map_or(Ok(default), str::parse::<usize>);
    let (num_checked, num_timed) = (count("checked", 5)?, count("timed", 20)?);
    let split = count("split", 1)?;
    let device = match option("device").unwrap_or("cpu").parse()? {
        DeviceName::Gpu { api, index } => open_gpu(api, index)?,
        DeviceName::Auto | DeviceName::Cpu => Device::flex(),
    };

    let source = Source::open(directory)?;
    let tokens = Tokens::load(&directory.join("tokens.txt"))?;
    let described = source.describe()?.model.ok_or("the directory describes no model")?;
    let config = ModelConfig { dropout: 0.0, attention_dropout: 0.0, ..described };
    let batch = Batch::read(&directory.join("batch.safetensors"))?;
    let parts = batch.split(split);
    let model = config.init(batch.shape[2], tokens.num_classes(), &device.clone().autodiff());
    let (model, started) = source.start(model, &tokens)?;
    if let Some(why) = started.new_head {
        return Err(format!("the head is not that of the weights: {why}").into());
    }
    let optim = OptimConfig { weight_decay: 0.0, ..OptimConfig::default() };
    let mut training = Training {
        model: with_stable_ids(model),
        optimizer: optim.init(),
        optim,
        tokens,
        device,
        cores: Cores::shared_by(split)?,
    };

    let start = Instant::now();
    let mut losses = vec![training.step(&parts)];
    let first_step_s = start.elapsed().as_secs_f64();
    losses.extend((1..num_checked).map(|_| training.step(&parts)));
    let times_ms = |work: &mut dyn FnMut()| -> Vec<f64> {
        let mut timed = || {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        };
        (0..num_timed).map(|_| timed()).collect()
    };
    let step_ms = times_ms(&mut || {
        training.step(&parts);
    });
    let inference = training.model.valid();
    training.recognise(&inference, &batch);
    let recognise_ms = times_ms(&mut || training.recognise(&inference, &batch));
    println!(
        "{}",
        serde_json::json!({
            "parameters": training.model.num_params(),
            "losses": losses,
            "first_step_s": first_step_s,
            "step_ms": step_ms,
            "recognise_ms": recognise_ms,
        })
    );
    Ok(())
}

/// Rows of equal lengths.
struct Batch {
    /// `[B, T, F]`, row-major.
    features: Vec<f32>,
    shape: [usize; 3],
    labels: Vec<Vec<u32>>,
}

impl Batch {
    fn read(path: &Path) -> Result<Batch, Failure> {
        let bytes = std::fs::read(path)?;
        let tensors = SafeTensors::deserialize(&bytes)?;
        let (features, labels) = (tensors.tensor("features")?, tensors.tensor("labels")?);
        let shape = features.shape().try_into()?;
        let (values, _) = features.data().as_chunks();
        let features = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let num_labels = labels.shape()[1];
        let (values, _) = labels.data().as_chunks();
        let labels: Vec<u32> = values
            .iter()
            .map(|bytes| u32::try_from(i64::from_le_bytes(*bytes)))
            .collect::<Result<_, _>>()?;
        let labels = labels.chunks(num_labels).map(<[u32]>::to_vec).collect();
        Ok(Batch { features, shape, labels })
    }

    /// The rows in `count` batches.
    fn split(&self, count: usize) -> Vec<Batch> {
        let [num_rows, num_frames, num_mels] = self.shape;
        let rows = num_rows.div_ceil(count);
        let features = self.features.chunks(rows * num_frames * num_mels);
        let parts = features.zip(self.labels.chunks(rows)).map(|(features, labels)| Batch {
            features: features.to_vec(),
            shape: [labels.len(), num_frames, num_mels],
            labels: labels.to_vec(),
        });
        parts.collect()
    }

    fn upload(&self, device: &Device) -> Tensor<3> {
        Tensor::from_data(TensorData::new(self.features.clone(), self.shape), device)
    }

    fn frame_lens(&self) -> Vec<usize> {
        vec![self.shape[1]; self.shape[0]]
    }
}

struct Training {
    model: AcousticModel,
    optimizer: ModuleOptimizer,
    optim: OptimConfig,
    tokens: Tokens,
    device: Device,
    cores: Cores,
}

impl Training {
    /// What `asr-train` does in a step of `parts`; returns the loss before it, in nats a label.
    fn step(&mut self, parts: &[Batch]) -> f64 {
        let num_labels: usize = parts.iter().flat_map(|part| &part.labels).map(Vec::len).sum();
        let device = self.device.clone().autodiff();
        let done = if let [whole] = parts {
            vec![self.forward_backward(&self.model, whole, num_labels)]
        } else {
            let jobs = parts.iter().map(|part| (self.model.clone().fork(&device), part));
            self.cores.run(jobs, |(model, part)| self.forward_backward(&model, part, num_labels))
        };
        let mut accumulator = GradientsAccumulator::new();
        let (mut losses, mut passes) = (Vec::new(), Vec::new());
        for (grads, loss, pass) in done {
            accumulator.accumulate(&self.model, grads);
            losses.push(loss);
            passes.push(pass);
        }
        let grads = accumulator.grads();
        let norm = global_norm(&grads, &self.model).expect("there are gradients");
        let read = values(Tensor::cat(vec![Tensor::cat(losses, 0).sum(), norm], 0));
        let grads = clip(grads, &self.model, f64::from(read[1]), self.optim.max_grad_norm);
        let model = self.model.clone();
        self.model = self.optimizer.step(self.optim.learning_rate, model, grads);
        self.model.absorb(&passes);
        f64::from(read[0])
    }

    fn forward_backward(
        &self,
        model: &AcousticModel,
        batch: &Batch,
        num_labels: usize,
    ) -> (GradientsParams, Tensor<1>, Pass) {
        let mut pass = Pass::training(1);
        let features = batch.upload(&self.device.clone().autodiff());
        let (logits, lens) = model.forward(features, &batch.frame_lens(), &mut pass);
        let problem = Arc::new(problem(&logits, lens, &batch.labels, &self.tokens));
        let nll = ctc_loss(logits, problem).sum() / num_labels as f64;
        let grads = GradientsParams::from_grads(nll.backward(), model);
        (grads, nll.inner(), pass)
    }

    /// From the features to the best class of each frame, read back.
    fn recognise(&self, model: &AcousticModel, batch: &Batch) {
        let features = batch.upload(&self.device);
        let (logits, _) = model.forward(features, &batch.frame_lens(), &mut Pass::inference());
        let best: Tensor<2, Int> = logits.argmax(2).squeeze_dim(2);
        drop(best.into_data());
    }
}
