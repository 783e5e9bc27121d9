//! The two commands: what was typed, what it means, what it exits with.
//!
//! Results go to stdout, everything else to stderr, nothing to both.

mod args;
mod check;
mod doctor;
mod eval;
mod export;
mod failure;
mod import;
mod tokens;
mod train;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use burn::tensor::Device;
use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

use crate::device::{DeviceName, open_gpu};
use crate::doctor::PROBE;
use crate::progress::Screen;
use crate::wording::nearest;

use args::{EvalArgs, TrainArgs, TrainCommand};
use failure::{Failure, USAGE};

const PROGRAM: &str = "asr-train";

/// Burn restores an optimiser's state on its default device before the next step moves it: in a
/// GPU build that is a GPU, used or not, and there or not. The CPU is always there.
fn restore_state_on_the_cpu() {
    // SAFETY: both commands call this first, before any other thread exists.
    unsafe { std::env::set_var("BURN_DEVICE", "flex") };
}

/// `asr-train`.
pub fn run_train(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    restore_state_on_the_cpu();
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(code) = answer_probe(&args) {
        return code;
    }
    let meant = misspelt_command(&args);
    let args = match TrainArgs::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => {
            // clap would speak of the command as the name of a config.
            return match meant.filter(|_| error.use_stderr()) {
                Some(meant) => finish(PROGRAM, Err(Failure::new(USAGE, anyhow::Error::msg(meant)))),
                None => usage(&error),
            };
        }
    };
    let result = match args.command {
        Some(TrainCommand::Doctor) => doctor::run(),
        Some(TrainCommand::Check(check)) => check::run(&check),
        Some(TrainCommand::Import(args)) => import::run(&args),
        Some(TrainCommand::Export(args)) => export::run(&args),
        Some(TrainCommand::Tokens(args)) => tokens::run(&args),
        None => train::run(&args.run).map_err(|failure| match meant {
            Some(meant) => failure.with(&meant),
            None => failure,
        }),
    };
    finish(PROGRAM, result)
}

/// What was meant where the first word is neither a command nor a file but nearly a command.
fn misspelt_command(args: &[OsString]) -> Option<String> {
    let word = args.get(1)?.to_str().filter(|word| !Path::new(word).exists())?;
    let command = TrainArgs::command();
    let known = command.get_subcommands().map(|command| command.get_name());
    let meant = nearest(word, known).filter(|meant| *meant != word)?;
    Some(format!("there is no command and no file \"{word}\"; did you mean \"asr-train {meant}\"?"))
}

/// `asr-eval`.
pub fn run_eval(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    restore_state_on_the_cpu();
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(code) = answer_probe(&args) {
        return code;
    }
    match EvalArgs::try_parse_from(args) {
        Ok(args) => finish("asr-eval", eval::run(&args)),
        Err(error) => usage(&error),
    }
}

fn finish(program: &str, result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(error) = &failure.error {
                // A closed stderr is not worth a second error.
                let _ = writeln!(io::stderr(), "{program}: {}", chain(error));
            }
            ExitCode::from(failure.code)
        }
    }
}

/// The error and its causes on one line. Some messages end in their cause already: it is not said
/// twice.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// A line of results, on stdout. A reader that has had enough (`asr-eval RUN | head -1`) is no
/// failure and changes no exit code.
fn say(line: impl Display) -> Result<(), Failure> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// clap's own message; help and version are no errors.
fn usage(error: &clap::Error) -> ExitCode {
    // A closed stdout is not worth a second error.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Plays the child of `doctor` when called as such.
fn answer_probe(args: &[OsString]) -> Option<ExitCode> {
    if args.get(1)? != PROBE {
        return None;
    }
    let name = args.get(2).and_then(|name| name.to_str()).and_then(|name| name.parse().ok())?;
    let answer = crate::doctor::probe(name);
    println!("{}", serde_json::to_string(&answer).expect("an answer is plain data"));
    Some(ExitCode::SUCCESS)
}

/// Logs to stderr, past the progress bar; `RUST_LOG` chooses what.
fn start_logging(screen: &Screen, is_quiet: bool) {
    let level = if is_quiet { "error" } else { "warn,symphonia=error,asr=info" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .without_time()
        .with_ansi(crate::progress::is_colour_welcome())
        .with_writer(screen.log_writer());
    // A test may have installed one already.
    let _ = subscriber.try_init();
}

/// Opens what `--device` names; `auto` asks each API's first device in a child process whether it
/// survives, a device named is taken at its word.
fn open_device(name: DeviceName) -> Result<(Device, String), Failure> {
    let chosen = if name == DeviceName::Auto { crate::doctor::choose() } else { name };
    let device = match chosen {
        DeviceName::Auto | DeviceName::Cpu => Device::flex(),
        DeviceName::Gpu { api, index } => open_gpu(api, index)?,
    };
    Ok((device, chosen.to_string()))
}
