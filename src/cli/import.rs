//! `asr-train import SRC DEST`.

use super::args::ImportArgs;
use super::failure::{DATA, Failure, USAGE};
use super::say;
use crate::corpus::{ImportError, import};

pub(super) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let imported = import(&args.source, &args.destination).map_err(|error| match error {
        ImportError::Manifest(_) => Failure::new(DATA, error),
        ImportError::Same { .. } | ImportError::Write { .. } => Failure::new(USAGE, error),
    })?;
    say(imported)?;
    say(format_args!("written     {}", args.destination.display()))
}
