//! From features to text: the model's best path for every utterance of a dataset.

use std::sync::Arc;
use std::time::Instant;

use asr_kernels::Problem;
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::cores::Cores;
use crate::ctc::ctc_loss;
use crate::data::{
    Batch, BatchInput, BatchWaveforms, DataConfig, DataError, Dataset, EvalLoader, FeaturesOn,
};
use crate::decode::{BlankCount, Greedy, greedy};
use crate::extract::{ExtractError, Extractor, mask};
use crate::features::LogMelConfig;
use crate::model::{AcousticModel, Pass};
use crate::tokens::Tokens;

/// Batches that a CPU recognises side by side, at most; each holds activations of its own.
const AT_ONCE: usize = 4;

/// What a model made of a dataset.
#[derive(Clone, Debug, Default)]
pub struct Recognition {
    /// A hypothesis for each utterance, by its index in the dataset.
    pub hypotheses: Vec<String>,
    /// Loss of the feasible utterances together, in nats.
    pub nll: f64,
    /// Their labels; the loss per label is `nll / labels`.
    pub labels: usize,
    /// Utterances whose labels do not fit their frames; no loss counts them.
    pub infeasible: usize,
    /// Blank frames among all.
    pub blanks: BlankCount,
    /// Seconds of audio.
    pub audio_s: f64,
    /// Seconds from the first batch to the last hypothesis.
    pub compute_s: f64,
}

impl Recognition {
    /// Mean loss per label in nats; `None` if no utterance was feasible.
    pub fn loss(&self) -> Option<f64> {
        (self.labels > 0).then(|| self.nll / self.labels as f64)
    }

    fn add(&mut self, heard: Heard, tokens: &Tokens) {
        let Heard { batch, problem, nll, decoded } = heard;
        self.audio_s += batch.audio_s;
        self.blanks += decoded.blanks;
        for (row, (utterance, labels)) in batch.utterances.iter().zip(decoded.labels).enumerate() {
            let labels: Vec<u32> = labels.into_iter().map(|label| label as u32).collect();
            // A piece that starts a word need not come first.
            self.hypotheses[*utterance] = tokens.decode(&labels).trim().to_owned();
            if problem.is_feasible(row) {
                self.nll += f64::from(nll[row]);
                self.labels += batch.labels[row].len().max(1);
            } else {
                self.infeasible += 1;
            }
        }
    }
}

/// What computes features on `device` if `data` asks for it and there is a device beside the host; if
/// not, `data` says host from here on.
///
/// # Errors
/// [`ExtractError`] where the device cannot, `data` then saying host too.
pub fn extractor(
    data: &mut DataConfig,
    features: &LogMelConfig,
    device: &Device,
) -> Result<Option<Arc<Extractor>>, ExtractError> {
    let is_wanted = std::mem::take(&mut data.features_on) == FeaturesOn::Device;
    if !is_wanted || *device == Device::flex() {
        return Ok(None);
    }
    let extractor = Extractor::new(features, device)?;
    data.features_on = FeaturesOn::Device;
    Ok(Some(Arc::new(extractor)))
}

/// Recognises every utterance; `model` must not be on an autodiff device, and `extractor` is that of the
/// dataset's settings.
///
/// # Errors
///
/// [`DataError`] of the first utterance that cannot be read.
pub fn recognise(
    model: &AcousticModel,
    tokens: &Tokens,
    dataset: &Arc<Dataset>,
    device: &Device,
    extractor: Option<&Arc<Extractor>>,
) -> Result<Recognition, DataError> {
    let start = Instant::now();
    let mut recognition = Recognition {
        hypotheses: vec![String::new(); dataset.items().len()],
        ..Default::default()
    };
    // A batch gains little from a second core. Without threads one waits for the other, and a GPU
    // queues what one thread gives it.
    let is_cpu = *device == Device::flex();
    let cores = is_cpu.then(|| Cores::shared_by(AT_ONCE).ok()).flatten();
    let mut batches = EvalLoader::new(Arc::clone(dataset))?;
    loop {
        let at_once = cores.as_ref().map_or(1, Cores::num_shares);
        let round = batches.by_ref().take(at_once).collect::<Result<Vec<Batch>, _>>()?;
        if round.is_empty() {
            break;
        }
        let hear = |batch| {
            let (features, batch) = upload(batch, device, extractor);
            hear(model, tokens, features, batch)
        };
        let heard = match &cores {
            Some(cores) => cores.run(round, hear),
            None => round.into_iter().map(hear).collect(),
        };
        for heard in heard {
            recognition.add(heard, tokens);
        }
    }
    recognition.compute_s = start.elapsed().as_secs_f64();
    Ok(recognition)
}

/// What a model made of a batch.
struct Heard {
    batch: Batch,
    problem: Arc<Problem>,
    /// Of each row, in nats.
    nll: Vec<f32>,
    decoded: Greedy<i64>,
}

fn hear(model: &AcousticModel, tokens: &Tokens, features: Tensor<3>, batch: Batch) -> Heard {
    let (logits, frame_lens) = model.forward(features, &batch.frame_lens, &mut Pass::inference());
    let best: Tensor<2, Int> =
        without(logits.clone(), &tokens.silent_classes()).argmax(2).squeeze_dim(2);
    let num_frames = logits.dims()[1];
    let problem = Arc::new(problem(&logits, frame_lens.clone(), &batch.labels, tokens));
    let nll = values(ctc_loss(logits, Arc::clone(&problem)));
    // These reads wait for the device.
    let best: Vec<i64> = best.into_data().iter::<i64>().collect();
    let decoded = greedy(&best, num_frames, &frame_lens, i64::from(tokens.blank()))
        .expect("the model's lengths lie within its logits");
    Heard { batch, problem, nll, decoded }
}

/// Logits by which no frame is of one of `classes`, such as `<unk>` of a tokenizer's file.
fn without(logits: Tensor<3>, classes: &[u32]) -> Tensor<3> {
    if classes.is_empty() {
        return logits;
    }
    let num_classes = logits.dims()[2];
    let mut mask = vec![0.0_f32; num_classes];
    classes.iter().for_each(|class| mask[*class as usize] = f32::NEG_INFINITY);
    let mask = Tensor::from_data(TensorData::new(mask, [1, 1, num_classes]), &logits.device());
    logits + mask
}

/// Moves a batch's features to the device, or makes them there: `[B, T, F]`. The rest of the batch stays.
///
/// # Panics
/// If a batch of waveforms comes without an extractor, a fault of ours: see [`extractor`].
pub fn upload(
    mut batch: Batch,
    device: &Device,
    extractor: Option<&Arc<Extractor>>,
) -> (Tensor<3>, Batch) {
    let shape = [batch.len(), batch.num_frames, batch.num_mels];
    let input = std::mem::replace(&mut batch.input, BatchInput::Features(Vec::new()));
    let features = match input {
        BatchInput::Features(values) => Tensor::from_data(TensorData::new(values, shape), device),
        BatchInput::Waveforms(waveforms) => {
            let BatchWaveforms { samples, num_samples, sample_lens, masks, fill } = waveforms;
            let made = extractor
                .expect("a loader hands out waveforms only where an extractor was planned")
                .features(samples, num_samples, sample_lens, batch.num_frames, device);
            mask(made, &masks, &batch.frame_lens, fill)
        }
    };
    (features, batch)
}

/// The CTC problem of a batch.
///
/// # Panics
///
/// If labels or lengths are not those of this vocabulary and these logits, a fault of ours: the
/// labels were encoded by `tokens`, the lengths come from the model.
pub fn problem(
    logits: &Tensor<3>,
    frame_lens: Vec<usize>,
    labels: &[Vec<u32>],
    tokens: &Tokens,
) -> Problem {
    let [_, num_frames, num_classes] = logits.dims();
    Problem::new(num_frames, num_classes, tokens.blank(), frame_lens, labels)
        .expect("labels come from these tokens, and lengths from this model")
}

/// The values of a vector; waits for the device.
pub fn values(tensor: Tensor<1>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::augment::{AugmentConfig, Augmenter, SpecAugmentConfig};
    use crate::config::RunConfig;
    use crate::data::{Cursor, Padding, Sampler, TrainLoader};
    use crate::model::ModelConfig;
    use crate::policy::Source;
    use crate::prepare::evaluation_set;
    use crate::progress::{Display, Screen};

    /// Logits of the valid frames, by utterance.
    type Logits = BTreeMap<String, Vec<f32>>;

    const TOLERANCE: f32 = 1e-4;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    /// Every `step`th utterance of the bundled development set, as a manifest of its own.
    fn manifest(directory: &Path, first: usize, step: usize) -> PathBuf {
        let digits = root().join("data/digits");
        let text = fs::read_to_string(digits.join("dev.jsonl")).unwrap();
        let audio = format!("\"audio_filepath\": \"{}/", digits.display());
        let lines = text.lines().skip(first).step_by(step);
        let lines: String =
            lines.map(|line| line.replace("\"audio_filepath\": \"", &audio) + "\n").collect();
        let path = directory.join(format!("{first}-{step}.jsonl"));
        fs::write(&path, lines).unwrap();
        path
    }

    fn dataset(config: &RunConfig, manifest: PathBuf, tokens: &Tokens) -> Arc<Dataset> {
        let screen = Screen::new(Display::detect(true));
        let set = evaluation_set("test", &[manifest], config, tokens, &screen, &mut Vec::new());
        Arc::new(set.unwrap())
    }

    /// What `model` answers to the batches of a loader, in evaluation.
    fn answers(
        model: &AcousticModel,
        dataset: &Dataset,
        batches: impl Iterator<Item = Batch>,
    ) -> (Logits, usize) {
        let (mut all, mut num_batches) = (Logits::new(), 0);
        for batch in batches {
            num_batches += 1;
            let (features, batch) = upload(batch, &Device::flex(), None);
            let (logits, lens) = model.forward(features, &batch.frame_lens, &mut Pass::inference());
            for (row, (utterance, len)) in batch.utterances.iter().zip(lens).enumerate() {
                let valid = logits.clone().narrow(0, row, 1).narrow(1, 0, len);
                let id = dataset.items()[*utterance].utterance.id().to_owned();
                all.insert(id, valid.into_data().try_to_vec().unwrap());
            }
        }
        (all, num_batches)
    }

    /// The largest distance between answers to the same utterances.
    fn distance(some: &Logits, all: &Logits) -> f32 {
        let pairs = some.iter().map(|(id, logits)| (logits, &all[id]));
        pairs.fold(0.0, |worst, (a, b)| {
            assert_eq!(a.len(), b.len());
            a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(worst, f32::max)
        })
    }

    #[test]
    fn an_utterance_has_the_same_logits_alone_padded_and_beside_any_mates_of_any_loader() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = Tokens::from_transcripts(["efghinorstuvwxz "]).unwrap();
        // Weights of a size at which a fault would show, running statistics of batch norms among them.
        let source = Source::open(&root().join("tests/fixtures/parakeet/factor8")).unwrap();
        let described = source.describe().unwrap();
        let mut config = RunConfig {
            model: described.model.unwrap(),
            features: described.features.unwrap(),
            ..Default::default()
        };
        let fresh = config.model.init(16, tokens.num_classes(), &Device::flex());
        let (parakeet, _) = source.start(fresh, &tokens).unwrap();
        let odd = ModelConfig {
            hidden_size: 24,
            num_heads: 3,
            num_layers: 2,
            conv_kernel: 31,
            subsampling_factor: 4,
            subsampling_channels: 5,
            ..Default::default()
        };
        let odd = odd.init(16, tokens.num_classes(), &Device::flex());
        let whole = manifest(directory.path(), 0, 4);
        for model in [parakeet, odd] {
            let mut evaluate = |manifest: &PathBuf, batch_s, max_utterances, num_buckets| {
                config.data.batch_s = batch_s;
                config.data.max_batch_utterances = max_utterances;
                config.data.num_buckets = num_buckets;
                let dataset = dataset(&config, manifest.clone(), &tokens);
                let loader = EvalLoader::new(Arc::clone(&dataset)).unwrap();
                answers(&model, &dataset, loader.map(Result::unwrap))
            };
            // One bucket pads all to the longest, a bucket each pads hardly.
            let (alone, num_alone) = evaluate(&whole, 1.0, 1, 15);
            assert_eq!((alone.len(), num_alone), (15, 15));
            let size = alone.values().flatten().fold(0.0_f32, |most, x| most.max(x.abs()));
            assert!(size > 0.3, "logits of {size} would hide a fault");
            let (together, num_together) = evaluate(&whole, 1e3, 128, 1);
            assert_eq!(num_together, 1);
            let (padded, _) = evaluate(&whole, 1.0, 1, 1);
            let (some, num_some) = evaluate(&whole, 8.0, 3, 3);
            assert!((5..15).contains(&num_some), "{num_some}");
            let (fewer, _) = evaluate(&manifest(directory.path(), 0, 12), 1e3, 128, 1);
            for (way, other) in [
                ("together", together),
                ("padded", padded),
                ("in threes", some),
                ("other mates", fewer),
            ] {
                let worst = distance(&other, &alone);
                assert!(worst < TOLERANCE, "{way}: off by {worst}");
            }
            // The shuffled batches of training, without its augmentation.
            config.data.batch_s = 12.0;
            config.data.max_batch_utterances = 128;
            let dataset = dataset(&config, whole.clone(), &tokens);
            for (seed, padding) in [(1, Padding::Longest), (2, Padding::Bucket)] {
                let sampler = Arc::new(Sampler::train(&dataset, seed, padding).unwrap());
                let none = SpecAugmentConfig { freq_masks: 0, time_masks: 0, ..Default::default() };
                let augmenter = Augmenter::open(&AugmentConfig::default(), &none, 16_000).unwrap();
                let loader = TrainLoader::new(
                    Arc::clone(&dataset),
                    Arc::clone(&sampler),
                    Arc::new(augmenter),
                    Cursor::default(),
                );
                let epoch = loader.unwrap().take(sampler.batches_per_epoch());
                let batches = epoch.map(|batch| batch.unwrap().1);
                let (shuffled, _) = answers(&model, &dataset, batches);
                let worst = distance(&shuffled, &alone);
                assert!(worst < TOLERANCE, "{padding:?}: off by {worst}");
            }
        }
    }
}
