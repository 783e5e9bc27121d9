//! `asr-train check CONFIG`.

use super::args::CheckArgs;
use super::failure::Failure;
use super::start_logging;
use crate::config::RunConfig;
use crate::prepare::{evaluation_set, prepare};
use crate::progress::{Display, Screen};

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let screen = Screen::new(Display::detect(args.quiet));
    start_logging(&screen, args.quiet);
    let config = RunConfig::load(&args.config, &args.overrides)?;
    config.validate()?;
    let prepared = prepare(&config, None, &screen)?;
    let mut summaries = prepared.summaries;
    if !config.data.test.is_empty() {
        evaluation_set("test", &config.data.test, &config, &prepared.tokens, &screen, &mut summaries)?;
    }
    for summary in &summaries {
        println!("{}", summary.line());
        for remark in &summary.remarks {
            println!("      {remark}");
        }
    }
    let symbols: String = prepared.tokens.symbols().iter().collect();
    println!("tokens {} characters: {symbols:?}", prepared.tokens.symbols().len());
    let shapes = prepared.sampler.shapes();
    if let Some((utterances, frames)) = shapes.first() {
        let batches = prepared.sampler.batches_per_epoch();
        println!("batches {batches} an epoch, {} shapes, the largest {utterances} x {frames} frames", shapes.len());
    }
    println!("{}: good to train", args.config.display());
    Ok(())
}
