//! SIGINT and SIGTERM as a question that the loop asks between steps.
//!
//! The first signal lets the step end and the run save; a second one, from somebody who will not
//! wait, ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The last signal caught, if any. Cheap to clone and to ask.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Starts listening.
    ///
    /// # Errors
    ///
    /// The system's, if a handler cannot be installed.
    pub fn listen() -> io::Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        let is_second = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal, of either kind, finds the flag unset and sets it.
            flag::register_conditional_shutdown(signal, exit_code(signal), Arc::clone(&is_second))?;
            flag::register(signal, Arc::clone(&is_second))?;
            flag::register_usize(signal, Arc::clone(&caught), signal as usize)?;
        }
        Ok(Self(caught))
    }

    /// The exit code that a caught signal asks for, 130 or 143.
    pub fn caught(&self) -> Option<u8> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(exit_code(signal as i32) as u8),
        }
    }
}

/// 128 and the signal's number, as shells report it.
fn exit_code(signal: i32) -> i32 {
    128 + signal
}
