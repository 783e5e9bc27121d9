//! From features to text: the model's best path for every utterance of a dataset.

use std::sync::Arc;
use std::time::Instant;

use asr_kernels::Problem;
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::ctc::ctc_loss;
use crate::data::{Batch, DataError, Dataset, EvalLoader};
use crate::decode::{BlankCount, greedy};
use crate::model::{AcousticModel, Pass};
use crate::tokens::Tokens;

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
}

/// Recognises every utterance; `model` must not be on an autodiff device.
///
/// # Errors
///
/// [`DataError`] of the first utterance that cannot be read.
pub fn recognise(
    model: &AcousticModel,
    tokens: &Tokens,
    dataset: &Arc<Dataset>,
    device: &Device,
) -> Result<Recognition, DataError> {
    let start = Instant::now();
    let mut recognition = Recognition {
        hypotheses: vec![String::new(); dataset.items().len()],
        ..Default::default()
    };
    for batch in EvalLoader::new(Arc::clone(dataset))? {
        add_batch(&mut recognition, model, tokens, batch?, device);
    }
    recognition.compute_s = start.elapsed().as_secs_f64();
    Ok(recognition)
}

fn add_batch(
    sum: &mut Recognition,
    model: &AcousticModel,
    tokens: &Tokens,
    batch: Batch,
    device: &Device,
) {
    sum.audio_s += batch.audio_s;
    let (features, batch) = upload(batch, device);
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
    sum.blanks += decoded.blanks;
    for (row, (utterance, labels)) in batch.utterances.iter().zip(decoded.labels).enumerate() {
        let labels: Vec<u32> = labels.into_iter().map(|label| label as u32).collect();
        // A piece that starts a word need not come first.
        sum.hypotheses[*utterance] = tokens.decode(&labels).trim().to_owned();
        if problem.is_feasible(row) {
            sum.nll += f64::from(nll[row]);
            sum.labels += batch.labels[row].len().max(1);
        } else {
            sum.infeasible += 1;
        }
    }
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

/// Moves a batch's features to the device: `[B, T, F]`. The rest of the batch stays.
pub fn upload(mut batch: Batch, device: &Device) -> (Tensor<3>, Batch) {
    let shape = [batch.len(), batch.num_frames, batch.num_mels];
    let values = std::mem::take(&mut batch.features);
    (Tensor::from_data(TensorData::new(values, shape), device), batch)
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
