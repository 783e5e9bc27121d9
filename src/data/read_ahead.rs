//! Recordings in tar files, read by one thread in the order of the [plan](super::shard_order) and kept
//! until their batch comes. The thread stops where `max_bytes` are kept, unless the batch at hand waits for
//! something further on; so no order of batches can stall it, and one that follows the plan keeps within
//! the bound. It never is more than an epoch ahead, however little of a set is to be read.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::shard_order::LANES;
use super::{DataError, Dataset};
use crate::corpus::{ReadCounts, TarReader};

/// The bytes of a recording.
pub(super) type Recording = io::Result<Arc<Vec<u8>>>;

/// An utterance of an epoch.
pub(super) type Heard = (u64, usize);

pub(super) struct ReadAhead {
    dataset: Arc<Dataset>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    kept: HashMap<Heard, Recording>,
    kept_bytes: u64,
    most_bytes: u64,
    counts: ReadCounts,
    /// The epoch of the batch at hand.
    epoch: u64,
    /// What somebody waits for.
    awaited: Option<Heard>,
    /// Whether nothing more will be read.
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }
}

impl ReadAhead {
    /// Reads `order`, which begins in `start_epoch`, and keeps up to `max_bytes` of it.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start(
        dataset: Arc<Dataset>,
        start_epoch: u64,
        order: impl Iterator<Item = Heard> + Send + 'static,
        max_bytes: u64,
    ) -> Result<ReadAhead, DataError> {
        let state = Mutex::new(State { epoch: start_epoch, ..State::default() });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let (data, to) = (Arc::clone(&dataset), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("tar-reader".into())
            .spawn(move || {
                // Even a panic tells those who wait.
                let to = EndedWhenDropped(to);
                read(&data, order, &to.0, max_bytes);
            })
            .map_err(|error| DataError::Loader(error.to_string()))?;
        Ok(ReadAhead { dataset, shared, thread: Some(thread) })
    }

    /// The recording of an utterance, once it is read; `None` for one that need not be read from a tar
    /// file.
    pub(super) fn take(&self, epoch: u64, utterance: usize) -> Option<Recording> {
        let mut state = self.shared.lock();
        if state.epoch < epoch {
            state.epoch = epoch;
            self.shared.changed.notify_all();
        }
        let (_, span) = self.dataset.member(utterance)?;
        loop {
            if let Some(recording) = state.kept.remove(&(epoch, utterance)) {
                state.kept_bytes -= span.len;
                self.shared.changed.notify_all();
                return Some(recording);
            }
            if state.is_over {
                return Some(Err(io::Error::other("the reading of tar files has ended")));
            }
            state.awaited = Some((epoch, utterance));
            self.shared.changed.notify_all();
            state = self.shared.wait(state);
        }
    }

    /// Ends the reading; whoever waits gets an error.
    pub(super) fn close(&self) {
        self.shared.end();
    }

    /// What reading took so far, and the most bytes that were kept.
    pub(super) fn counts(&self) -> (ReadCounts, u64) {
        let state = self.shared.lock();
        (state.counts, state.most_bytes)
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // A panic was already printed by the thread.
            let _ = thread.join();
        }
    }
}

struct EndedWhenDropped(Arc<Shared>);

impl Drop for EndedWhenDropped {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn read(dataset: &Dataset, order: impl Iterator<Item = Heard>, to: &Shared, max_bytes: u64) {
    let mut tars = TarReader::new(LANES + 1);
    for (epoch, utterance) in order {
        let mut state = to.lock();
        while !state.is_over && state.epoch + 1 < epoch {
            state = to.wait(state);
        }
        if state.is_over {
            return;
        }
        let Some((tar, span)) = dataset.member(utterance) else { continue };
        while !state.is_over && state.awaited.is_none() && state.kept_bytes + span.len > max_bytes {
            state = to.wait(state);
        }
        if state.is_over {
            return;
        }
        drop(state);
        let recording = tars.read(tar, span);
        let mut state = to.lock();
        // Here, not where it is taken: whoever waits may be slow to wake up.
        state.awaited.take_if(|awaited| *awaited == (epoch, utterance));
        state.kept.insert((epoch, utterance), recording);
        state.kept_bytes += span.len;
        state.most_bytes = state.most_bytes.max(state.kept_bytes);
        state.counts = tars.counts();
        to.changed.notify_all();
    }
}
