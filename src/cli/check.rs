//! `asr-train check CONFIG`: settings first, then every recording of every split is decoded once, whatever is
//! wrong with the others. The report goes to stdout, what stops a training to stderr, all of it to
//! `data_report.json`; the exit code is that with which training would end.

use std::path::Path;

use super::args::CheckArgs;
use super::failure::{DATA, Failure, RUNNING, USAGE};
use super::{open_device, say, start_logging};
use crate::config::RunConfig;
use crate::data::report::{BucketReport, DataReport, Rules, Severity, Split};
use crate::data::{Depth, Padding, fix};
use crate::durable::{create_atomic_with, refuse_unwritable, write_atomic};
use crate::prepare::{
    PrepareError, Prepared, SplitSummary, Utterances, assemble, augmenter, choose_tokens, frames,
    look, refuse_hopeless,
};
use crate::progress::{Display, Screen};
use crate::schedule::Schedule;
use crate::tokens::Tokens;
use crate::wording::{counted, wrapped};

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let screen = Screen::new(Display::detect(args.quiet));
    start_logging(&screen, args.quiet);
    let config = RunConfig::load(&args.config, &args.overrides)?;
    config.validate()?;
    refuse_to_overwrite(args)?;
    let (device, device_name) = open_device(args.device)?;
    let utterances = Utterances::read(&config)?;
    refuse_hopeless(&config, &utterances.train)?;
    let augmenter = augmenter(&config)?;
    if let Some(file) = config.tokens.file() {
        Tokens::load(file)?;
    }

    let measured = config.data.for_evaluation();
    let look = |utterances, data| look(utterances, data, &config, Depth::Measured, &screen);
    let train = look(utterances.train, &config.data)?;
    let dev = look(utterances.dev, &measured)?;
    let test = look(utterances.test, &measured)?;
    let texts = train.survey.kept.iter().map(|kept| kept.text());
    // Without a character there is no vocabulary; assembling says so.
    let tokens = choose_tokens(&config, texts).ok();
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
    report.add_silent_noises(augmenter.silent_noises());
    let fixed = args.fix.as_deref().map(|out| write_usable(out, &rules, &splits[0])).transpose()?;

    let something_left = splits
        .iter()
        .try_for_each(|split| split.findings.survey.refuse_nothing(split.findings.total));
    // What is sound is batched all the same, to show the padding.
    let saved_tokens = saved_tokens.as_deref();
    let prepared = something_left.map_err(PrepareError::from).and_then(|()| {
        assemble(&config, saved_tokens, Padding::Bucket, augmenter, train.survey, dev.survey)
    });
    if let Ok(prepared) = &prepared {
        report.buckets = BucketReport::of(&prepared.train, &prepared.sampler);
    }
    let say_unless_quiet = |text: &str| if args.quiet { Ok(()) } else { say(text) };
    say_unless_quiet(report.to_string().trim_end())?;
    let mut json = serde_json::to_vec_pretty(&report).map_err(std::io::Error::from)?;
    json.push(b'\n');
    write_atomic(&args.report, &json)
        .map_err(|error| unwritable("the report", &args.report, error))?;
    if let (Some(out), Some(count)) = (&args.fix, fixed) {
        let usable = counted(count, "utterance");
        let (path, what) = (out.display(), "usable part of the training set");
        say_unless_quiet(&match count {
            0 => format!("{what}: {usable}, so no {path} is written"),
            _ => format!("{what}: {usable} in {path}"),
        })?;
    }
    if let Some(errors) = report.errors() {
        let text =
            format!("{}: {errors}\nall of it: {}", args.config.display(), args.report.display());
        return Err(Failure::new(DATA, anyhow::Error::msg(text)));
    }
    let prepared = prepared?;
    let targets = prepared.look_at_targets(&config, &device, &device_name)?;
    for line in batches(&config, &prepared)? {
        say_unless_quiet(&line)?;
    }
    say_unless_quiet(&targets)?;
    let warnings = match report.count(Severity::Warning) {
        0 => String::new(),
        count => {
            format!(" (with {}; all of it: {})", counted(count, "warning"), args.report.display())
        }
    };
    say(format_args!("{}: good to train{warnings}", args.config.display()))
}

/// Writes the usable part of the training set, and counts it. Of nothing there is no file.
fn write_usable(out: &Path, rules: &Rules, train: &Split) -> Result<usize, Failure> {
    let count = rules.usable(train).count();
    if count > 0 {
        let write = |file: &mut _| fix::write_manifest(file, out, rules.usable(train));
        create_atomic_with(out, write)
            .map_err(|error| unwritable("the usable part", out, error))?;
    }
    Ok(count)
}

/// The splits, the vocabulary, and how a run goes through the data, a line each.
fn batches(config: &RunConfig, prepared: &Prepared) -> Result<Vec<String>, Failure> {
    let batches = prepared.sampler.batches_per_epoch();
    let steps = config.total_steps(batches);
    Schedule::new(&config.schedule, config.optim.learning_rate, steps)?;
    let mut lines: Vec<String> = prepared.summaries.iter().map(SplitSummary::line).collect();
    lines.push(wrapped(&prepared.vocabulary, 7));
    let shapes = prepared.sampler.shapes();
    if let Some((utterances, frames)) = shapes.first() {
        lines.push(format!(
            "batches {batches} an epoch, {}, the largest {utterances} x {frames} frames; {}",
            counted(shapes.len(), "shape"),
            counted(steps, "step"),
        ));
    }
    Ok(lines)
}

/// A new file takes the place of none but an older report, and can be written: found before the recordings
/// are read.
fn refuse_to_overwrite(args: &CheckArgs) -> Result<(), Failure> {
    let refused = |what, path: &Path, error| {
        let text = format!("cannot write {what} to {}", path.display());
        Failure::new(USAGE, anyhow::Error::new(error).context(text))
    };
    if let Some(out) = &args.fix {
        refuse_unwritable(out).map_err(|error| refused("the usable part", out, error))?;
        if is_same(out, &args.report) {
            let text = "--fix and --report name one file; give them two";
            return Err(Failure::new(USAGE, anyhow::anyhow!("{}: {text}", out.display())));
        }
    }
    if !is_report(&args.report) {
        refuse_unwritable(&args.report)
            .map_err(|error| refused("the report", &args.report, error))?;
    }
    Ok(())
}

/// Whether two names, of which neither need exist, are one file.
fn is_same(a: &Path, b: &Path) -> bool {
    let resolved = |path: &Path| {
        let path = std::path::absolute(path).ok()?;
        Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
    };
    a == b || matches!((resolved(a), resolved(b)), (Some(a), Some(b)) if a == b)
}

/// Whether there is an older report. A report holds a hundred examples of each finding: what is much longer
/// is something else.
fn is_report(path: &Path) -> bool {
    const MAX_LEN: u64 = 1 << 26;
    std::fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() <= MAX_LEN)
        && std::fs::read(path)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
            .is_some_and(|old| old["splits"].is_array() && old["findings"].is_array())
}

fn unwritable(what: &str, path: &Path, error: std::io::Error) -> Failure {
    let text = format!("cannot write {what} to {}", path.display());
    Failure::new(RUNNING, anyhow::Error::new(error).context(text))
}
