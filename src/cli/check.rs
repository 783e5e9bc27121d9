//! `asr-train check CONFIG`.

use super::args::CheckArgs;
use super::failure::Failure;
use super::{open_device, say, start_logging};
use crate::config::RunConfig;
use crate::data::Padding;
use crate::prepare::{evaluation_set, prepare};
use crate::progress::{Display, Screen};
use crate::schedule::Schedule;
use crate::train::total_steps;

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let screen = Screen::new(Display::detect(args.quiet));
    start_logging(&screen, args.quiet);
    let config = RunConfig::load(&args.config, &args.overrides)?;
    config.validate()?;
    let (device, device_name) = open_device(args.device)?;
    let prepared = prepare(&config, None, Padding::Bucket, &screen)?;
    let targets = prepared.look_at_targets(&config, &device, &device_name)?;
    let mut summaries = prepared.summaries;
    if !config.data.test.is_empty() {
        evaluation_set(
            "test",
            &config.data.test,
            &config,
            &prepared.tokens,
            &screen,
            &mut summaries,
        )?;
    }
    let batches = prepared.sampler.batches_per_epoch();
    let steps = total_steps(&config, batches);
    Schedule::new(&config.schedule, config.optim.learning_rate, steps)?;
    for summary in &summaries {
        say(format_args!("{}", summary.lines()))?;
    }
    let symbols: String = prepared.tokens.symbols().iter().collect();
    say(format_args!("tokens {} characters: {symbols:?}", prepared.tokens.symbols().len()))?;
    let shapes = prepared.sampler.shapes();
    if let Some((utterances, frames)) = shapes.first() {
        say(format_args!(
            "batches {batches} an epoch, {} shapes, the largest {utterances} x {frames} frames",
            shapes.len()
        ))?;
    }
    say(format_args!("{targets}"))?;
    say(format_args!("{}: good to train", args.config.display()))?;
    Ok(())
}
