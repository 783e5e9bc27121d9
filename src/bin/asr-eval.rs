//! `asr-eval RUN`: measures a trained model, and can fail a CI job.

use std::process::ExitCode;

fn main() -> ExitCode {
    asr::cli::run_eval(std::env::args_os())
}
