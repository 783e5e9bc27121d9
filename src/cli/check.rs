//! `asr-train check CONFIG`: every recording of every split is decoded once, whatever is wrong with the
//! others; then all of it is reported at once, and the exit code is that with which training would end.

use std::path::Path;

use super::args::CheckArgs;
use super::failure::{Failure, RUNNING, USAGE};
use super::{open_device, say, start_logging};
use crate::config::RunConfig;
use crate::data::report::{BucketReport, DataReport, Rules, Split};
use crate::data::{DataError, Depth, Findings, Padding, Problem, fix};
use crate::durable::{create_atomic_with, refuse_existing, write_atomic};
use crate::prepare::{Prepared, assemble, augmenter, frames, look};
use crate::progress::{Display, Screen};
use crate::schedule::Schedule;
use crate::tokens::Tokens;
use crate::train::total_steps;

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let screen = Screen::new(Display::detect(args.quiet));
    start_logging(&screen, args.quiet);
    let config = RunConfig::load(&args.config, &args.overrides)?;
    config.validate()?;
    refuse_to_overwrite(args)?;
    let (device, device_name) = open_device(args.device)?;
    let augmenter = augmenter(&config)?;
    if let Some(file) = config.tokens.file() {
        Tokens::load(file)?;
    }

    let measured = config.data.for_evaluation();
    let train = look(&config.data.train, &config.data, &config, Depth::Measured, &screen)?;
    let dev = look(&config.data.dev, &measured, &config, Depth::Measured, &screen)?;
    let test = look(&config.data.test, &measured, &config, Depth::Measured, &screen)?;
    let texts = train.survey.kept.iter().map(|kept| kept.text());
    // Without a character there is no vocabulary; assembling says so.
    let tokens = Tokens::new(&config.tokens, texts).ok();
    let saved_tokens = tokens.as_ref().map(Tokens::to_text);
    let fastest = config.data.speeds.iter().copied().fold(1.0, f64::max);
    let mut splits = vec![
        Split { name: "train", findings: &train, fastest },
        Split { name: "dev", findings: &dev, fastest: 1.0 },
    ];
    if !config.data.test.is_empty() {
        splits.push(Split { name: "test", findings: &test, fastest: 1.0 });
    }
    let of_model = |num_frames: usize, labels: &[u32]| frames(&config, num_frames, labels);
    let rules = Rules {
        features: &config.features,
        tokens: tokens.as_ref(),
        frames: &of_model,
        max_infeasible_percent: config.train.max_infeasible_percent,
    };
    let mut report = DataReport::new(args.config.display().to_string(), &splits, &rules);
    if let Some(out) = &args.fix {
        let usable = rules.usable(&splits[0]);
        let written = create_atomic_with(out, |file| fix::write_manifest(file, out, usable));
        written.map_err(|error| unwritable("the usable part", out, error))?;
    }

    let broken = broken([&train, &dev, &test]);
    // What is sound is batched all the same, to show the padding.
    let saved_tokens = saved_tokens.as_deref();
    let prepared =
        assemble(&config, saved_tokens, Padding::Bucket, augmenter, train.survey, dev.survey);
    if let Ok(prepared) = &prepared {
        report.buckets = BucketReport::of(&prepared.train, &prepared.sampler);
    }
    say(report.to_string().trim_end())?;
    let mut json = serde_json::to_vec_pretty(&report).map_err(std::io::Error::from)?;
    json.push(b'\n');
    write_atomic(&args.report, &json)
        .map_err(|error| unwritable("the report", &args.report, error))?;
    if let Some(out) = &args.fix {
        say(format_args!("usable part of the training set: {}", out.display()))?;
    }
    broken?;
    let prepared = prepared?;
    say_batches(&config, &prepared)?;
    say(prepared.look_at_targets(&config, &device, &device_name)?)?;
    say(format_args!("{}: good to train", args.config.display()))
}

/// All that is broken in any split, as one failure.
fn broken<const N: usize>(splits: [&Findings; N]) -> Result<(), DataError> {
    let problems: Vec<Problem> =
        splits.iter().flat_map(|findings| &findings.problems).cloned().collect();
    let total = splits.iter().map(|findings| findings.total).sum();
    if problems.is_empty() { Ok(()) } else { Err(DataError::Broken { problems, total }) }
}

/// The vocabulary, and how a run goes through the data.
fn say_batches(config: &RunConfig, prepared: &Prepared) -> Result<(), Failure> {
    let batches = prepared.sampler.batches_per_epoch();
    let steps = total_steps(config, batches);
    Schedule::new(&config.schedule, config.optim.learning_rate, steps)?;
    for summary in &prepared.summaries {
        say(summary.line())?;
    }
    say(&prepared.vocabulary)?;
    let shapes = prepared.sampler.shapes();
    if let Some((utterances, frames)) = shapes.first() {
        say(format_args!(
            "batches {batches} an epoch, {} shapes, the largest {utterances} x {frames} frames",
            shapes.len()
        ))?;
    }
    Ok(())
}

/// A new file takes the place of none but an older report: found before the recordings are read.
fn refuse_to_overwrite(args: &CheckArgs) -> Result<(), Failure> {
    let refused = |what, path: &Path, error| {
        let text = format!("cannot write {what} to {}", path.display());
        Failure::new(USAGE, anyhow::Error::new(error).context(text))
    };
    if let Some(out) = &args.fix {
        refuse_existing(out).map_err(|error| refused("the usable part", out, error))?;
        if *out == args.report {
            let text = "--fix and --report name one file; give them two";
            return Err(Failure::new(USAGE, anyhow::anyhow!("{}: {text}", out.display())));
        }
    }
    let is_report = std::fs::read(&args.report)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
        .is_some_and(|old| old["splits"].is_array() && old["findings"].is_array());
    if !is_report {
        refuse_existing(&args.report)
            .map_err(|error| refused("the report", &args.report, error))?;
    }
    Ok(())
}

fn unwritable(what: &str, path: &Path, error: std::io::Error) -> Failure {
    let text = format!("cannot write {what} to {}", path.display());
    Failure::new(RUNNING, anyhow::Error::new(error).context(text))
}
