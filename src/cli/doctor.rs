//! `asr-train doctor`.

use super::failure::{Failure, RUNNING};
use super::say;
use crate::device::Api;
use crate::doctor::{Answer, examine};

pub(super) fn run() -> Result<(), Failure> {
    let answers = examine();
    let mut is_cpu_good = false;
    for (name, answer) in &answers {
        match answer {
            Answer::Found(found) => {
                say(format_args!("{:<9} {} ({})", name.to_string(), found.name, found.driver))?;
                if let Some(bytes) = found.memory_bytes {
                    say(format_args!(
                        "          memory {:.1} GiB",
                        bytes as f64 / f64::from(1 << 30)
                    ))?;
                }
                if let (Some(bytes), Some(labels)) =
                    (found.shared_memory_bytes, found.max_shared_labels)
                {
                    say(format_args!(
                        "          shared memory {bytes} bytes: CTC targets up to {labels} labels stay in it, longer ones use global memory"
                    ))?;
                }
                match found.ctc_error {
                    Some(error) if found.passes() => say(format_args!(
                        "          CTC self-test passed, largest error {error:.1e}"
                    ))?,
                    Some(error) => say(format_args!(
                        "          CTC self-test FAILED, largest error {error:.1e}: do not train on it"
                    ))?,
                    None => say(format_args!(
                        "          CTC self-test FAILED with values that are not finite: do not train on it"
                    ))?,
                }
                is_cpu_good |= name.to_string() == "cpu" && found.passes();
            }
            Answer::Missing(reason) => say(format_args!("{:<9} none: {reason}", name.to_string()))?,
            Answer::Crashed(reason) => {
                say(format_args!("{:<9} unusable: {reason}", name.to_string()))?
            }
        }
    }
    for api in Api::ALL.into_iter().filter(|api| !api.is_compiled_in()) {
        say(format_args!(
            "{:<9} not in this build (cargo build --release --features {api})",
            api.to_string()
        ))?;
    }
    if is_cpu_good {
        Ok(())
    } else {
        Err(Failure::new(RUNNING, anyhow::anyhow!("the CPU fails the CTC self-test")))
    }
}
