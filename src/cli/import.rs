//! `asr-train import SRC DEST`.

use std::io::ErrorKind;

use super::args::ImportArgs;
use super::failure::{DATA, Failure, RUNNING, USAGE};
use super::say;
use crate::corpus::{ImportError, import};

pub(super) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let imported = import(&args.source, &args.destination).map_err(|error| match error {
        ImportError::Manifest(_) => Failure::new(DATA, error),
        ImportError::Same { .. } => Failure::new(USAGE, error),
        ImportError::Write { ref source, .. } => {
            let code = match source.kind() {
                // A name that JSON cannot hold.
                ErrorKind::InvalidData => DATA,
                // A full disk is no mistake of the command line.
                ErrorKind::StorageFull => RUNNING,
                _ => USAGE,
            };
            Failure::new(code, error)
        }
    })?;
    say(imported)?;
    say(format_args!("written     {}", args.destination.display()))
}
