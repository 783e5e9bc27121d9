//! `asr-train CONFIG`: trains an acoustic model from recordings and transcripts.

use std::process::ExitCode;

fn main() -> ExitCode {
    asr::cli::run_train(std::env::args_os())
}
