//! Training: prepare the data, then steps, validations and checkpoints until the run is done.

mod error;
mod run_dir;
mod session;
mod step;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use burn::tensor::Device;

use crate::config::RunConfig;
use crate::data::{Batch, Cursor, DataConfig, FeaturesOn, Padding, TrainLoader};
use crate::extract::Extractor;
use crate::interrupt::Interrupt;
use crate::policy::Link;
use crate::prepare::{Prepared, prepare};
use crate::progress::{MetricsLog, Screen};
use crate::recognise;
use crate::schedule::Schedule;
use crate::wording::counted;

pub use error::TrainError;
pub use run_dir::Resume;
use session::{Interval, Session};
use step::{NonFinite, train_step};

/// What a run is given besides its config.
pub struct TrainOptions {
    /// Where the run goes.
    pub out: PathBuf,
    /// Whether and from where to resume.
    pub resume: Resume,
    /// The device, without autodiff.
    pub device: Device,
    /// Its name, for logs.
    pub device_name: String,
}

impl TrainOptions {
    /// Whether the device is the CPU.
    fn is_cpu(&self) -> bool {
        self.device == Device::flex()
    }
}

/// How a run ended, errors apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// All steps are done.
    Finished,
    /// A signal came, and the run is saved; the exit code that it asks for.
    Interrupted(u8),
}

/// Trains `config` to its end, or to a signal.
///
/// # Errors
///
/// [`TrainError`]; whatever was saved before stays valid.
pub fn train(
    config: &RunConfig,
    options: &TrainOptions,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Outcome, TrainError> {
    config.validate()?;
    let resumed = run_dir::open(&options.out, &options.resume, config)?;
    // A run that goes on in another directory needs a checkpoint and a best of its own there.
    let resumed_elsewhere = resumed.is_some() && run_dir::is_new(&options.out);
    let saved_tokens = resumed.as_ref().map(|resumed| resumed.checkpoint.tokens.as_str());
    let began = resumed.as_ref().and_then(|resumed| resumed.lengths.as_ref());
    // A CPU compiles nothing for a shape, so nothing but padding is lost by having many.
    let padding = if options.is_cpu() { Padding::Longest } else { Padding::Bucket };
    let (extractor, data) = extractor(config, options, screen)?;
    let config_here = RunConfig { data, ..config.clone() };
    let (prepared, lengths) = prepare(&config_here, saved_tokens, began, padding, screen)?;
    for summary in &prepared.summaries {
        screen.print(&summary.lines());
    }
    screen.print(&prepared.vocabulary);
    let targets = prepared.look_at_targets(config, &options.device, &options.device_name)?;
    screen.print(&targets);
    let steps_per_epoch = prepared.sampler.batches_per_epoch();
    let total_steps = config.total_steps(steps_per_epoch);
    let schedule = Schedule::new(&config.schedule, config.optim.learning_rate, total_steps)?;
    run_dir::describe(&options.out, config, &prepared.tokens, &lengths)?;
    drop(lengths);
    let resumed = resumed.map(|resumed| resumed.checkpoint);
    let mut session = Session::start(config, &prepared, options, extractor, resumed)?;
    let mut metrics =
        MetricsLog::open_resumed(&options.out.join("metrics.jsonl"), session.progress.step)?;
    screen.print(&session.introduction(total_steps, steps_per_epoch));
    if resumed_elsewhere {
        session.progress.best = None;
        session.save(&options.out, &[Link::Last])?;
    }
    if session.progress.step >= total_steps {
        screen.print(
            "the run is already complete; raise train.epochs or train.max_steps to train on",
        );
        return Ok(Outcome::Finished);
    }

    let mut bar = screen.training(session.progress.step, total_steps, config.train.log_every);
    let mut batches = TrainLoader::new(
        Arc::clone(&prepared.train),
        Arc::clone(&prepared.sampler),
        Arc::clone(&prepared.augmenter),
        session.progress.next,
    )?;
    let mut nonfinite = NonFinite::new(config.optim.max_nonfinite_steps);
    let mut interval = Interval::new();
    let (started, started_at_step) = (Instant::now(), session.progress.step);
    let mut clock = started;
    while session.progress.step < total_steps {
        if let Some(code) = interrupt.caught() {
            drop(bar);
            session.save_unless_saved(&options.out)?;
            screen.print(&format!(
                "interrupted at step {}: saved; the same command resumes",
                session.progress.step
            ));
            return Ok(Outcome::Interrupted(code));
        }
        let first = session.progress.next;
        let (last, micro_batches) = next_batches(&mut batches, config.optim.accumulate)?;
        let learning_rate = schedule.learning_rate(session.progress.step);
        let report = train_step(&mut session, micro_batches, learning_rate);
        nonfinite.judge(&report, &mut session.progress, &prepared.train, screen)?;
        session.progress.step += 1;
        session.progress.next = prepared.sampler.advance(last);
        session.progress.wall_s += clock.elapsed().as_secs_f64();
        clock = Instant::now();

        if started_at_step == session.progress.step - 1 {
            bar.note(&format!("first step after {:.1} s", started.elapsed().as_secs_f64()));
        }
        interval.add(&report);
        let is_last = session.progress.step == total_steps;
        bar.step(&session.step_report(&interval, learning_rate, last));
        if session.progress.step.is_multiple_of(config.train.log_every) || is_last {
            metrics.write(&session.train_record(&interval, learning_rate, last))?;
            interval = Interval::new();
        }
        if is_last || validates(config, first, session.progress.next) {
            let validation = session.validate(&prepared, last)?;
            bar.validation(&validation.report);
            metrics.write(&validation.record)?;
            let links: &[Link] =
                if validation.is_best { &[Link::Last, Link::Best] } else { &[Link::Last] };
            session.save(&options.out, links)?;
            session.progress.wall_s += clock.elapsed().as_secs_f64();
            clock = Instant::now();
        }
    }
    bar.finish();
    if !batches.left_out().is_empty() {
        screen.print(&left_out(&prepared, &batches));
    }
    Ok(Outcome::Finished)
}

/// What computes features on the device, if anything does, and where batches are to be made for. What is
/// saved with the run stays as it was asked for: it may go on elsewhere.
fn extractor(
    config: &RunConfig,
    options: &TrainOptions,
    screen: &Screen,
) -> Result<(Option<Arc<Extractor>>, DataConfig), TrainError> {
    let mut data = config.data.clone();
    let extractor = recognise::extractor(&mut data, &config.features, &options.device)?;
    match &extractor {
        Some(extractor) => {
            let (name, precision) = (&options.device_name, extractor.precision());
            screen.print(&format!("features: on {name}, in {precision}"));
        }
        None if config.data.features_on == FeaturesOn::Device => {
            screen.print("features: on the host, for there is no device beside the CPU");
        }
        None => {}
    }
    Ok((extractor, data))
}

/// Whether the step from the batch at `first` up to the one at `next` completed an epoch that asks
/// for it.
fn validates(config: &RunConfig, first: Cursor, next: Cursor) -> bool {
    let every = config.train.validate_every as u64;
    next.epoch / every > first.epoch / every
}

/// Says how many recordings went bad during the run; each was named when it happened.
fn left_out(prepared: &Prepared, batches: &TrainLoader) -> String {
    let hours = batches.left_out().iter().map(|index| prepared.train.items()[*index].duration_s());
    format!(
        "left out: {} that could not be read any more ({:.2} h)",
        counted(batches.left_out().len(), "recording"),
        hours.sum::<f64>() / 3_600.0
    )
}

/// The next `count` batches, which together make one step, and the place of the last.
fn next_batches(
    batches: &mut TrainLoader,
    count: usize,
) -> Result<(Cursor, Vec<Batch>), TrainError> {
    let mut last = Cursor::default();
    let mut taken = Vec::with_capacity(count);
    for _ in 0..count {
        let (cursor, batch) = batches.next().expect("a training loader never ends")?;
        last = cursor;
        taken.push(batch);
    }
    Ok((last, taken))
}
