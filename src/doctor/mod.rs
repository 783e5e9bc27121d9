//! Which devices this build and this machine offer, and whether they compute CTC rightly.
//!
//! A broken driver can kill the process that asks it, so each device is asked in a child: the
//! same program with [`PROBE`] as its first argument. The child prints one JSON line, or dies
//! and is reported.

mod probe;

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::device::{Api, DeviceName};

pub use probe::probe;

/// The first argument that turns the program into a probe of the device named by the second.
pub const PROBE: &str = "__probe";

/// A driver that has not answered by then never will; compiling the self-test's kernels is
/// included.
const TIMEOUT: Duration = Duration::from_secs(180);

/// More devices of one API than any machine has: the end of a driver that never says no.
const MAX_DEVICES: usize = 64;

/// What a device says of itself, and how it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The adapter's name.
    pub name: String,
    /// The driver and its version, as far as the API tells.
    pub driver: String,
    /// Memory, if the API tells.
    pub memory_bytes: Option<u64>,
    /// Shared memory of a cube, of which the CTC kernel makes its rows.
    pub shared_memory_bytes: Option<u64>,
    /// The longest target that the CTC kernel keeps in shared memory; longer ones use global.
    pub max_shared_labels: Option<usize>,
    /// Whether a CPU stands behind it.
    pub is_software: bool,
    /// The worst error of the CTC self-test against f64, if it ran to the end.
    pub ctc_error: Option<f64>,
}

/// The answer of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The device is there.
    Found(Findings),
    /// There is no such device; the reason is the API's.
    Missing(String),
    /// The process that asked ended without an answer.
    Crashed(String),
}

impl Findings {
    /// Whether the self-test ran and agreed with the reference.
    pub fn passes(&self) -> bool {
        self.ctc_error.is_some_and(|error| error <= crate::ctc::self_test::TOLERANCE)
    }
}

/// Asks every device of every API in this build, in a process each, and the CPU.
pub fn examine() -> Vec<(DeviceName, Answer)> {
    let mut answers = vec![(DeviceName::Cpu, ask(DeviceName::Cpu))];
    for api in Api::ALL.into_iter().filter(|api| api.is_compiled_in()) {
        for index in 0..MAX_DEVICES {
            let name = DeviceName::Gpu { api, index };
            let answer = ask(name);
            let is_last = !matches!(answer, Answer::Found(_));
            // "No second device" is no news; "no device at all" and a crash are.
            if index == 0 || !matches!(answer, Answer::Missing(_)) {
                answers.push((name, answer));
            }
            if is_last {
                break;
            }
        }
    }
    answers
}

/// The device that `auto` means: the first real GPU that passes, or the CPU.
pub fn choose() -> DeviceName {
    for api in Api::ALL.into_iter().filter(|api| api.is_compiled_in()) {
        let name = DeviceName::Gpu { api, index: 0 };
        match ask(name) {
            Answer::Found(findings) if findings.is_software => {
                tracing::info!(
                    "{name}: {} is a CPU in disguise, not chosen automatically",
                    findings.name
                );
            }
            Answer::Found(findings) if findings.passes() => return name,
            Answer::Found(findings) => {
                tracing::warn!("{name}: {} fails the CTC self-test, not chosen", findings.name);
            }
            Answer::Missing(reason) => tracing::debug!("{name}: {reason}"),
            Answer::Crashed(reason) => tracing::warn!("{name}: {reason}, not chosen"),
        }
    }
    DeviceName::Cpu
}

/// Asks one device in a process of its own.
pub fn ask(name: DeviceName) -> Answer {
    ask_with(name, TIMEOUT)
        .unwrap_or_else(|error| Answer::Crashed(format!("cannot start a probe: {error}")))
}

fn ask_with(name: DeviceName, timeout: Duration) -> std::io::Result<Answer> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([PROBE, &name.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Both pipes are drained while the child runs: a driver that logs a lot must not block.
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > timeout {
            child.kill()?;
            child.wait()?;
            return Ok(Answer::Crashed(format!("no answer within {} s", timeout.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    let answer = stdout.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    Ok(match answer {
        Some(answer) if status.success() => answer,
        _ => Answer::Crashed(format!(
            "its driver ended the probe with {status}{}",
            last_words(&stderr)
        )),
    })
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before a broken pipe is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn last_words(stderr: &str) -> String {
    let telling = |line: &&str| !line.trim().is_empty() && !line.contains("RUST_BACKTRACE");
    match stderr.lines().rev().find(telling) {
        Some(line) => format!(" ({})", line.trim()),
        None => String::new(),
    }
}
