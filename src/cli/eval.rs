//! `asr-eval RUN`.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::args::EvalArgs;
use super::failure::{Failure, MISSED, USAGE};
use super::{open_device, say, start_logging};
use crate::eval::report::Results;
use crate::eval::{EvalError, Recogniser, set_names};
use crate::progress::{Display, Screen};
use crate::score::CorpusScore;

/// A measured set.
pub(super) struct MeasuredSet {
    name: String,
    score: CorpusScore,
    results: Results,
}

pub(super) fn run(args: &EvalArgs) -> Result<(), Failure> {
    let screen = Screen::new(Display::detect(args.quiet));
    start_logging(&screen, args.quiet);
    if let Some(bar) = args.max_wer.filter(|bar| !(bar.is_finite() && *bar >= 0.0)) {
        return Err(Failure::new(
            USAGE,
            anyhow!("--max-wer {bar} must be a percentage of at least 0"),
        ));
    }
    let (device, device_name) = open_device(args.device)?;
    let recogniser = Recogniser::load(&args.run, device, device_name)?;
    let manifests =
        if args.manifests.is_empty() { &recogniser.config.data.test } else { &args.manifests };
    if manifests.is_empty() {
        return Err(EvalError::NoManifest.into());
    }
    let out = args.out.clone().unwrap_or_else(|| run_directory(&args.run, &recogniser.checkpoint));
    let sets = measure(&recogniser, manifests, &out, &screen)?;
    print_sets(&sets)?;
    args.max_wer.map_or(Ok(()), |bar| hold_against(&sets, bar))
}

/// Evaluates each manifest into `eval/SET` below `out`.
pub(super) fn measure(
    recogniser: &Recogniser,
    manifests: &[PathBuf],
    out: &Path,
    screen: &Screen,
) -> Result<Vec<MeasuredSet>, EvalError> {
    screen.print(&format!("measuring {}", recogniser.checkpoint.display()));
    let mut sets = Vec::with_capacity(manifests.len());
    for (name, manifest) in set_names(manifests).into_iter().zip(manifests) {
        let directory = out.join("eval").join(&name);
        let (score, results) = recogniser.evaluate(manifest, &directory, screen)?;
        screen.print(&format!("{name}: report in {}", directory.display()));
        sets.push(MeasuredSet { name, score, results });
    }
    Ok(sets)
}

/// The result, on stdout.
pub(super) fn print_sets(sets: &[MeasuredSet]) -> Result<(), Failure> {
    for MeasuredSet { name, score, results } in sets {
        say(format_args!("{name}"))?;
        say(format_args!("{}", score.words.kaldi_line()))?;
        let percent = |rate: Option<f64>| {
            rate.map_or("nan".to_owned(), |rate| format!("{:.2}", 100.0 * rate))
        };
        say(format_args!(
            "%CER {} [ {} / {} ]  %SER {} [ {} / {} ]  {:.1} s of audio, {:.0}x real time",
            percent(score.cer()),
            score.characters.errors(),
            score.characters.reference_len(),
            percent(score.sentence_error_rate()),
            score.utterances_with_errors,
            score.utterances,
            results.audio_seconds,
            results.rtfx.unwrap_or(0.0),
        ))?;
    }
    Ok(())
}

/// Fails with 4 if any set is worse than `bar` percent, naming set and figure.
fn hold_against(sets: &[MeasuredSet], bar: f64) -> Result<(), Failure> {
    let missed: Vec<String> = sets
        .iter()
        .filter(|set| set.score.wer().is_none_or(|wer| 100.0 * wer > bar))
        .map(|set| match set.score.wer() {
            Some(wer) => format!("{} has a WER of {:.2} %", set.name, 100.0 * wer),
            None => format!("{} has no reference words, so no WER", set.name),
        })
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(MISSED, anyhow!("--max-wer {bar} missed: {}", missed.join(", "))))
}

/// The run that a checkpoint belongs to: `RUN/checkpoints/step-N` is two below it.
fn run_directory(given: &Path, checkpoint: &Path) -> PathBuf {
    let is_checkpoint = given.join("manifest.json").is_file();
    let above =
        checkpoint.parent().filter(|parent| parent.ends_with("checkpoints")).and_then(Path::parent);
    match above {
        Some(run) if is_checkpoint => run.to_owned(),
        _ => given.to_owned(),
    }
}
