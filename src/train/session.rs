//! The state of a run between steps: model, optimiser, place, and what is shown of them.

use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Bytes, Device};

use super::step::StepOutcome;
use super::{TrainError, TrainOptions};
use crate::config::RunConfig;
use crate::cores::Cores;
use crate::data::Cursor;
use crate::extract::Extractor;
use crate::model::{AcousticModel, Pass};
use crate::optim::with_stable_ids;
use crate::policy::{
    Checkpoint, CheckpointError, Link, Manifest, Progress, Source, Started, load_weights, resolve,
    retain, save, weights_to_bytes,
};
use crate::prepare::Prepared;
use crate::progress::{MetricsRecord, StepReport, ValidationReport};
use crate::recognise::recognise;
use crate::score::CorpusScore;
use crate::tokens::Tokens;

pub(super) struct Session {
    pub model: AcousticModel,
    pub device: Device,
    pub tokens: Tokens,
    pub progress: Progress,
    pub max_grad_norm: f64,
    /// What computes features on the device; none where the host does.
    pub extractor: Option<Arc<Extractor>>,
    /// The cores that the micro-batches of a step share; none on a GPU.
    pub cores: Option<Cores>,
    optimizer: ModuleOptimizer,
    config: RunConfig,
    infeasible: usize,
    device_name: String,
    /// What the weights started from, if not at random.
    started: Option<Started>,
}

/// A validation, for the screen and for the metrics.
pub(super) struct Validation {
    pub report: ValidationReport,
    pub record: MetricsRecord,
    pub is_best: bool,
}

/// Sums over the steps since the last line of metrics.
pub(super) struct Interval {
    steps: usize,
    loss: f64,
    consistency: Option<f64>,
    grad_norm: f64,
    audio_s: f64,
    start: std::time::Instant,
}

impl Interval {
    pub fn new() -> Self {
        Self {
            steps: 0,
            loss: 0.0,
            consistency: None,
            grad_norm: 0.0,
            audio_s: 0.0,
            start: std::time::Instant::now(),
        }
    }

    /// Adds a step; losses that are not finite are counted elsewhere and left out here.
    pub fn add(&mut self, outcome: &StepOutcome) {
        self.audio_s += outcome.audio_s;
        if outcome.is_finite {
            self.steps += 1;
            self.loss += outcome.loss;
            if let Some(consistency) = outcome.consistency {
                *self.consistency.get_or_insert(0.0) += consistency;
            }
            self.grad_norm += outcome.grad_norm;
        }
    }

    fn mean(&self, sum: f64) -> Option<f64> {
        (self.steps > 0).then(|| sum / self.steps as f64)
    }

    fn audio_s_per_s(&self) -> f64 {
        self.audio_s / self.start.elapsed().as_secs_f64().max(1e-9)
    }
}

impl Session {
    /// A new model, or the one of `resumed`.
    pub fn start(
        config: &RunConfig,
        prepared: &Prepared,
        options: &TrainOptions,
        extractor: Option<Arc<Extractor>>,
        resumed: Option<Checkpoint>,
    ) -> Result<Self, TrainError> {
        let device = options.device.clone();
        device.seed(config.train.seed);
        let num_classes = prepared.tokens.num_classes();
        let model =
            config.model.init(config.features.num_mels, num_classes, &device.clone().autodiff());
        let cores =
            options.is_cpu().then(|| Cores::shared_by(config.optim.accumulate)).transpose()?;
        let mut session = Self {
            model: with_stable_ids(model),
            extractor,
            cores,
            device,
            tokens: prepared.tokens.clone(),
            progress: Progress::default(),
            max_grad_norm: config.optim.max_grad_norm,
            optimizer: config.optim.init(),
            config: config.clone(),
            infeasible: prepared.infeasible,
            device_name: options.device_name.clone(),
            started: None,
        };
        if let Some(checkpoint) = resumed {
            session.model = with_stable_ids(load_weights(session.model, checkpoint.model)?);
            let state = Bytes::from_bytes_vec(checkpoint.optimizer);
            session.optimizer = session.optimizer.from_bytes(state).map_err(|error| {
                TrainError::Optimizer { path: options.out.clone(), reason: error.to_string() }
            })?;
            session.progress = checkpoint.progress;
        } else if let Some(path) = config.init_from() {
            let (model, started) = Source::open(path)?.start(session.model, &session.tokens)?;
            session.model = with_stable_ids(model);
            session.started = Some(started);
        }
        Ok(session)
    }

    /// How much the divergence of views counts; 0 where there is one view.
    pub fn consistency_weight(&self) -> f64 {
        self.config.ctc.consistency
    }

    /// The passes of the next step, a function of seed and step: a resumed run draws what an
    /// uninterrupted one would have drawn. Seeds the device's generator too.
    pub fn passes(&self) -> impl Iterator<Item = Pass> {
        let step = self.progress.step as u64;
        let seed = self.config.train.seed ^ (step + 1).wrapping_mul(0xD134_2543_DE82_EF95);
        self.device.seed(seed);
        (1..).map(move |batch: u64| {
            Pass::training(seed.wrapping_add(batch.wrapping_mul(0xA076_1D64_78BD_642F)))
        })
    }

    /// Moves the weights, and the running statistics of the batch norms.
    pub fn update(&mut self, learning_rate: f64, grads: GradientsParams, passes: &[Pass]) {
        let model = self.model.clone();
        self.model = self.optimizer.step(learning_rate, model, grads);
        self.model.absorb(passes);
    }

    /// Recognises the development set with the weights as they are after the batch at `last`.
    pub fn validate(
        &mut self,
        prepared: &Prepared,
        last: Cursor,
    ) -> Result<Validation, TrainError> {
        let found = recognise(
            &self.model.valid(),
            &self.tokens,
            &prepared.dev,
            &self.device,
            self.extractor.as_ref(),
        )?;
        let normalizer = self.config.data.normalizer;
        let mut score = CorpusScore::default();
        let mut pairs = Vec::new();
        for (item, hypothesis) in prepared.dev.items().iter().zip(&found.hypotheses) {
            let hypothesis = normalizer.normalize(hypothesis);
            score.add(item.text(), &hypothesis);
            if pairs.len() < self.config.train.show_pairs {
                pairs.push((item.text().to_owned(), hypothesis));
            }
        }
        let wer = score.wer();
        let is_best =
            wer.is_some_and(|wer| self.progress.best.is_none_or(|(best, _)| wer < best - 1e-9));
        if let (true, Some(wer)) = (is_best, wer) {
            self.progress.best = Some((wer, self.progress.step));
        }
        let report = ValidationReport {
            set: "dev".to_owned(),
            step: self.progress.step,
            loss: found.loss(),
            wer,
            cer: score.cer(),
            blank_rate: found.blanks.rate(),
            examples: pairs,
        };
        let record = MetricsRecord {
            step: report.step,
            epoch: last.epoch as usize,
            split: report.set.clone(),
            loss: report.loss,
            wer,
            cer: report.cer,
            blank_rate: report.blank_rate,
            infeasible: found.infeasible,
            skipped_nonfinite: self.progress.skipped_nonfinite,
            audio_s_per_s: Some(found.audio_s / found.compute_s.max(1e-9)),
            wall_s: self.progress.wall_s,
            ..Default::default()
        };
        Ok(Validation { report, record, is_best })
    }

    /// Writes a checkpoint for `last`, unless the newest is already of this step.
    pub fn save_unless_saved(&self, out: &Path) -> Result<(), TrainError> {
        let newest = resolve(out, Link::Last).and_then(|path| Manifest::read(&path));
        if newest.is_ok_and(|manifest| manifest.progress.step == self.progress.step) {
            return Ok(());
        }
        self.save(out, &[Link::Last])
    }

    /// Writes a checkpoint, moves `links` to it and removes what neither link needs.
    pub fn save(&self, out: &Path, links: &[Link]) -> Result<(), TrainError> {
        let optimizer = self
            .optimizer
            .into_bytes()
            .map_err(|error| CheckpointError::Weights(error.to_string()))?;
        let checkpoint = Checkpoint {
            progress: self.progress.clone(),
            model: weights_to_bytes(&self.model.valid())?,
            optimizer: optimizer.to_vec(),
            tokens: self.tokens.to_text(),
            config: self.config.to_toml()?,
        };
        save(out, &checkpoint, links)?;
        retain(out)?;
        Ok(())
    }

    /// What a person wants to know before the first step.
    pub fn introduction(&self, total_steps: usize, batches_per_epoch: usize) -> String {
        let parameters = self.model.num_params();
        let start = match self.progress.step {
            0 => String::new(),
            step => format!(", resumed at step {step}"),
        };
        let source = self.started.as_ref().map_or(String::new(), |from| format!("{from}\n"));
        format!(
            "{source}{:.2} M parameters, {} tokens, on {}; {batches_per_epoch} batches an epoch, {total_steps} steps{start}",
            parameters as f64 / 1e6,
            self.tokens.num_symbols(),
            self.device_name,
        )
    }

    /// The step just done, for the screen.
    pub fn step_report(&self, interval: &Interval, learning_rate: f64, last: Cursor) -> StepReport {
        StepReport {
            step: self.progress.step,
            epoch: last.epoch as usize,
            loss: interval.mean(interval.loss).unwrap_or(f64::NAN),
            learning_rate,
            audio_s_per_s: interval.audio_s_per_s(),
        }
    }

    /// The steps since the last line, for the metrics.
    pub fn train_record(
        &self,
        interval: &Interval,
        learning_rate: f64,
        last: Cursor,
    ) -> MetricsRecord {
        MetricsRecord {
            step: self.progress.step,
            epoch: last.epoch as usize,
            split: "train".to_owned(),
            loss: interval.mean(interval.loss),
            consistency: interval.consistency.and_then(|sum| interval.mean(sum)),
            lr: Some(learning_rate),
            grad_norm: interval.mean(interval.grad_norm),
            infeasible: self.infeasible,
            skipped_nonfinite: self.progress.skipped_nonfinite,
            audio_s_per_s: Some(interval.audio_s_per_s()),
            wall_s: self.progress.wall_s,
            ..Default::default()
        }
    }
}
