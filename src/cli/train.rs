//! `asr-train CONFIG`.

use std::path::{Path, PathBuf};

use super::args::RunArgs;
use super::eval::{measure, print_sets};
use super::failure::Failure;
use super::{open_device, start_logging};
use crate::config::RunConfig;
use crate::eval::Recogniser;
use crate::interrupt::Interrupt;
use crate::progress::{Display, Screen};
use crate::train::{Outcome, TrainOptions, train};

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let screen = Screen::new(Display::detect(args.quiet));
    start_logging(&screen, args.quiet);
    let path = args.config.as_deref().expect("clap requires CONFIG");
    let config = RunConfig::load(path, &args.overrides)?;
    config.validate()?;
    let out = output_directory(args.out.as_deref(), &config, path);
    let interrupt = Interrupt::listen()?;
    let (device, device_name) = open_device(args.device)?;
    let options = TrainOptions {
        out: out.clone(),
        resume: args.resume.clone(),
        device: device.clone(),
        device_name: device_name.clone(),
    };
    match train(&config, &options, &screen, &interrupt)? {
        Outcome::Interrupted(code) => return Err(Failure::silent(code)),
        Outcome::Finished => screen.print(&format!("saved in {}", out.display())),
    }
    let check_signal = || interrupt.caught().map_or(Ok(()), |code| Err(Failure::silent(code)));
    check_signal()?;
    if config.data.test.is_empty() {
        return Ok(());
    }
    let recogniser = Recogniser::load(&out, device, device_name)?;
    let sets = measure(&recogniser, &config.data.test, &out, &screen)?;
    print_sets(&sets)?;
    check_signal()
}

/// `--out`, or the config's `train.out`, or `runs/` and the config's name.
fn output_directory(out: Option<&Path>, config: &RunConfig, path: &Path) -> PathBuf {
    match out {
        Some(out) => out.to_owned(),
        None if !config.train.out.is_empty() => PathBuf::from(&config.train.out),
        None => Path::new("runs").join(path.file_stem().unwrap_or_default()),
    }
}
