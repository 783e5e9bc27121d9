//! One optimiser step: forward, CTC, backward over its micro-batches, clip, update.

use std::sync::Arc;

use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Bool, Tensor, TensorData};

use super::TrainError;
use super::session::Session;
use crate::ctc::{consistency, ctc_loss};
use crate::data::{Batch, Dataset};
use crate::model::{AcousticModel, Pass};
use crate::optim::{clip, global_norm};
use crate::policy::Progress;
use crate::progress::Screen;
use crate::recognise::{problem, upload, values};

/// Utterances named when a step is not finite.
const SHOWN: usize = 8;

/// What a step did.
pub(super) struct StepOutcome {
    /// Mean CTC loss per label, in nats.
    pub loss: f64,
    /// Mean divergence of the views from each other per label, in nats; none with one view.
    pub consistency: Option<f64>,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// Seconds of audio in its batches.
    pub audio_s: f64,
    /// Whether loss and gradient were finite, so that the weights moved.
    pub is_finite: bool,
    /// Dataset indices with a non-finite loss; all of the step's if only the gradient is bad.
    pub suspects: Vec<usize>,
}

/// Computes the mean loss per label over all micro-batches together, so that accumulating equals
/// one large batch, and updates the model unless something is not finite.
pub(super) fn train_step(
    session: &mut Session,
    batches: Vec<Batch>,
    learning_rate: f64,
) -> StepOutcome {
    let num_labels: usize =
        batches.iter().flat_map(|batch| &batch.labels).map(|labels| labels.len().max(1)).sum();
    let audio_s = batches.iter().map(|batch| batch.audio_s).sum();
    let utterances: Vec<usize> =
        batches.iter().flat_map(|batch| batch.utterances.iter().copied()).collect();
    let weight = session.consistency_weight();
    let parts = run_micro_batches(session, batches, Objective { num_labels, weight });

    // Summed in the order of the batches, whichever was ready first.
    let mut accumulator = GradientsAccumulator::new();
    let (mut losses, mut divergences, mut passes) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        accumulator.accumulate(&session.model, part.grads);
        losses.push(part.nll);
        divergences.extend(part.divergence);
        passes.push(part.pass);
    }
    let grads = accumulator.grads();
    let nll = Tensor::cat(losses, 0);
    let sum = nll.clone().sum();
    let norm = global_norm(&grads, &session.model).unwrap_or_else(|| sum.zeros_like());
    // The one wait for the device in a step: whether it may be applied has to be known.
    let read = values(Tensor::cat([vec![norm, sum], divergences].concat(), 0));
    let grad_norm = f64::from(read[0]);
    let per_label = |sums: &[f32]| -> f64 {
        sums.iter().map(|sum| f64::from(*sum)).sum::<f64>() / num_labels as f64
    };
    let loss = per_label(&read[1..2]);
    let consistency = (weight > 0.0).then(|| per_label(&read[2..]));
    let is_finite = loss.is_finite() && grad_norm.is_finite();
    let mut suspects = Vec::new();
    if is_finite {
        let grads = clip(grads, &session.model, grad_norm, session.max_grad_norm);
        session.update(learning_rate, grads, &passes);
    } else {
        let nll = values(nll);
        let bad = utterances.iter().zip(&nll).filter(|(_, nll)| !nll.is_finite());
        suspects = bad.map(|(utterance, _)| *utterance).collect();
        if suspects.is_empty() {
            suspects = utterances;
        }
        // Views lie side by side.
        suspects.dedup();
    }
    StepOutcome { loss, consistency, grad_norm, audio_s, is_finite, suspects }
}

/// What the micro-batches of a step minimise together: the CTC losses of all rows, and the weighted
/// divergence of their views, per label.
#[derive(Clone, Copy)]
struct Objective {
    /// Labels of all rows.
    num_labels: usize,
    /// Of the divergence; 0 where there is one view.
    weight: f64,
}

/// What one micro-batch contributes to a step.
struct Part {
    grads: GradientsParams,
    /// `[B]`; 0 where the labels do not fit the frames.
    nll: Tensor<1>,
    /// `[1]`; none with one view.
    divergence: Option<Tensor<1>>,
    pass: Pass,
}

/// On a CPU the micro-batches of a step run side by side, each on its share of the cores and on a
/// copy of the model that shares its weights but not its graph; a GPU queues them by itself.
fn run_micro_batches(session: &Session, batches: Vec<Batch>, objective: Objective) -> Vec<Part> {
    let jobs: Vec<(Batch, Pass)> = batches.into_iter().zip(session.passes()).collect();
    match &session.cores {
        Some(cores) if jobs.len() > 1 => {
            let device = session.device.clone().autodiff();
            let jobs = jobs
                .into_iter()
                .map(|(batch, pass)| (session.model.clone().fork(&device), batch, pass));
            cores.run(jobs, |(model, batch, pass)| run_one(&model, session, batch, pass, objective))
        }
        _ => {
            let run = |(batch, pass)| run_one(&session.model, session, batch, pass, objective);
            jobs.into_iter().map(run).collect()
        }
    }
}

/// Forward, CTC and backward of one micro-batch.
fn run_one(
    model: &AcousticModel,
    session: &Session,
    batch: Batch,
    mut pass: Pass,
    objective: Objective,
) -> Part {
    let device = model.devices().remove(0);
    let (features, batch) = upload(batch, &device, session.extractor.as_ref());
    let (logits, frame_lens) = model.forward(features, &batch.frame_lens, &mut pass);
    let divergence =
        (objective.weight > 0.0).then(|| consistency(logits.clone(), &frame_lens).sum());
    let problem = Arc::new(problem(&logits, frame_lens, &batch.labels, &session.tokens));
    let infeasible: Vec<bool> = (0..batch.len()).map(|row| !problem.is_feasible(row)).collect();
    let mut nll = ctc_loss(logits, problem);
    if infeasible.contains(&true) {
        let rows = Tensor::<1, Bool>::from_data(TensorData::from(infeasible.as_slice()), &device);
        nll = nll.mask_fill(rows, 0.0);
    }
    let sum = match &divergence {
        Some(divergence) => nll.clone().sum() + divergence.clone() * objective.weight,
        None => nll.clone().sum(),
    };
    let grads = (sum / objective.num_labels as f64).backward();
    Part {
        grads: GradientsParams::from_grads(grads, model),
        nll: nll.inner(),
        divergence: divergence.map(Tensor::inner),
        pass,
    }
}

/// Counts steps that were not finite, and ends the run after too many in a row.
pub(super) struct NonFinite {
    in_a_row: usize,
    limit: usize,
}

impl NonFinite {
    pub fn new(limit: usize) -> Self {
        Self { in_a_row: 0, limit }
    }

    /// Looks at a step before it is counted in `progress`.
    pub fn judge(
        &mut self,
        outcome: &StepOutcome,
        progress: &mut Progress,
        dataset: &Dataset,
        screen: &Screen,
    ) -> Result<(), TrainError> {
        if outcome.is_finite {
            self.in_a_row = 0;
            return Ok(());
        }
        self.in_a_row += 1;
        progress.skipped_nonfinite += 1;
        let mut ids: Vec<&str> = outcome
            .suspects
            .iter()
            .take(SHOWN)
            .map(|index| dataset.items()[*index].utterance.id())
            .collect();
        if outcome.suspects.len() > SHOWN {
            ids.push("...");
        }
        let (ids, step) = (ids.join(", "), progress.step + 1);
        if self.in_a_row >= self.limit {
            return Err(TrainError::Diverged { step, in_a_row: self.in_a_row, ids });
        }
        let (loss, norm) = (outcome.loss, outcome.grad_norm);
        screen.print(&format!(
            "step {step} skipped: loss {loss}, gradient norm {norm}; utterances: {ids}"
        ));
        Ok(())
    }
}
