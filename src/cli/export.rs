//! `asr-train export RUN DIR`.

use super::args::{ExportArgs, ExportFormat};
use super::failure::Failure;
use super::say;
use crate::policy::export;

pub(super) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let exported = match args.format {
        ExportFormat::Hf => export(&args.run, &args.out)?,
    };
    say(format_args!(
        "exported    {}: {} tensors, {} classes, the last of them the blank",
        exported.checkpoint.display(),
        exported.tensors,
        exported.classes
    ))?;
    if let Some(remark) = &exported.remark {
        say(format_args!("note        {remark}"))?;
    }
    say(format_args!("written     {}", args.out.display()))
}
