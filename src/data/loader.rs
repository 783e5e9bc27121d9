//! Batches made ready ahead of the device. One thread runs through the plan, a pool of its own makes
//! several batches at once, each batch's utterances in parallel, and a bounded queue holds their places:
//! they arrive in the order of the plan whatever finishes first, and never more than
//! `data.prefetch_batches` and the one in hand exist.
//!
//! A training recording that cannot be read any more is left out of its batch, named once and counted, up
//! to `data.max_bad_percent`; evaluation ends with it, since an error rate over the rest is another set's.
//! Dropping a loader stops and joins its threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use rayon::ThreadPoolBuilder;
use tracing::warn;

use super::batch::{Augmentation, Made, make};
use super::{Batch, Cursor, DataConfig, DataError, Dataset, Sampler};
use crate::augment::Augmenter;

/// Training batches for ever, each with its place. [`Sampler::advance`] of the last place seen is
/// where a resumed run starts.
pub struct TrainLoader {
    made: Ahead<(Cursor, Made)>,
    dataset: Arc<Dataset>,
    left_out: BTreeSet<usize>,
}

/// One pass over a dataset by length, nothing augmented.
pub struct EvalLoader {
    made: Ahead<Made>,
}

impl TrainLoader {
    /// Starts at `start`; the batches are those of an uninterrupted run from there on.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(
        dataset: Arc<Dataset>,
        sampler: Arc<Sampler>,
        augmenter: Arc<Augmenter>,
        start: Cursor,
    ) -> Result<TrainLoader, DataError> {
        // A cursor of a run with other data may point past the epoch: the next one follows.
        let is_within = start.batch < sampler.batches_per_epoch();
        let first = if is_within { start } else { Cursor { epoch: start.epoch + 1, batch: 0 } };
        let after = Arc::clone(&sampler);
        let places = std::iter::successors(Some(first), move |at| Some(after.advance(*at)));
        let data = Arc::clone(&dataset);
        let made = Ahead::start(dataset.config(), places, move |at| {
            let augmentation =
                Augmentation { augmenter: &augmenter, seed: sampler.seed(), epoch: at.epoch };
            Ok((at, make(&data, &sampler.batch(at), Some(augmentation))?))
        })?;
        Ok(TrainLoader { made, dataset, left_out: BTreeSet::new() })
    }

    /// Utterances that could not be read any more, by their index in the dataset.
    pub fn left_out(&self) -> &BTreeSet<usize> {
        &self.left_out
    }

    /// Names an utterance the first time it is left out.
    fn leave_out(&mut self, utterance: usize, error: DataError) -> Result<(), DataError> {
        if !self.left_out.insert(utterance) {
            return Ok(());
        }
        let (count, total) = (self.left_out.len(), self.dataset.items().len());
        let config = self.dataset.config();
        if count > config.max_bad(total) {
            let (limit_percent, last) = (config.max_bad_percent, error.to_string());
            return Err(DataError::TooManyBad { count, total, limit_percent, last });
        }
        let place = self.dataset.items()[utterance].utterance.place();
        warn!("left out from here on ({count} of {total} so far): {place}: {error}");
        Ok(())
    }
}

impl Iterator for TrainLoader {
    type Item = Result<(Cursor, Batch), DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (at, made) = match self.made.next()? {
                Ok(made) => made,
                Err(error) => return Some(Err(error)),
            };
            for (utterance, error) in made.unreadable {
                if let Err(error) = self.leave_out(utterance, error) {
                    self.made.stop();
                    return Some(Err(error));
                }
            }
            if let Some(batch) = made.batch {
                return Some(Ok((at, batch)));
            }
        }
    }
}

impl EvalLoader {
    /// Starts one pass.
    ///
    /// # Errors
    /// When no thread can be started, or an utterance is longer than `data.batch_s`.
    pub fn new(dataset: Arc<Dataset>) -> Result<EvalLoader, DataError> {
        let sampler = Sampler::eval(&dataset)?;
        let config = dataset.config().clone();
        let made = Ahead::start(&config, 0..sampler.batches_per_epoch(), move |batch| {
            make(&dataset, &sampler.in_order(batch), None)
        })?;
        Ok(EvalLoader { made })
    }
}

impl Iterator for EvalLoader {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let made = match self.made.next()? {
            Ok(made) => made,
            Err(error) => return Some(Err(error)),
        };
        if let Some((_, error)) = made.unreadable.into_iter().next() {
            self.made.stop();
            return Some(Err(error));
        }
        made.batch.map(Ok)
    }
}

/// A value that is being made.
type Promise<T> = Receiver<Result<T, DataError>>;

/// Values made on a pool ahead of whoever takes them, in order; the first fault is the last value.
struct Ahead<T> {
    promises: Option<Receiver<Promise<T>>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Ahead<T> {
    /// Makes a value for each of `places`.
    fn start<P: Send + 'static>(
        config: &DataConfig,
        places: impl Iterator<Item = P> + Send + 'static,
        make: impl Fn(P) -> Result<T, DataError> + Send + Sync + 'static,
    ) -> Result<Ahead<T>, DataError> {
        let failed = |error: &dyn std::fmt::Display| DataError::Loader(error.to_string());
        let pool = ThreadPoolBuilder::new()
            .num_threads(config.num_workers())
            .thread_name(|i| format!("features-{i}"))
            .build()
            .map_err(|error| failed(&error))?;
        let (sender, promises) = sync_channel(config.prefetch_batches);
        let thread = std::thread::Builder::new()
            .name("loader".into())
            .spawn(move || {
                let make = &make;
                // The scope ends when all that was begun is done, so that no thread outlives it.
                pool.in_place_scope_fifo(|scope| {
                    for place in places {
                        let (keep, promise) = sync_channel(1);
                        // The queue is what bounds the memory: only what has a place there is begun.
                        if sender.send(promise).is_err() {
                            return;
                        }
                        // A receiver that is gone has lost its interest.
                        scope.spawn_fifo(move |_| drop(keep.send(make(place))));
                    }
                });
            })
            .map_err(|error| failed(&error))?;
        Ok(Ahead { promises: Some(promises), thread: Some(thread) })
    }

    /// Ends the sequence.
    fn stop(&mut self) {
        // Without a receiver the thread's next send fails, and it ends.
        self.promises = None;
    }

    fn next(&mut self) -> Option<Result<T, DataError>> {
        let promise = self.promises.as_ref()?.recv();
        match promise.map(|promise| promise.recv()) {
            Ok(Ok(Ok(value))) => Some(Ok(value)),
            Ok(Ok(Err(error))) => {
                self.stop();
                Some(Err(error))
            }
            // The thread is gone: at the end of its plan, or by a panic, its own or a worker's.
            Err(_) | Ok(Err(_)) => {
                self.stop();
                let panic = self.thread.take()?.join().err()?;
                let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
                Some(Err(DataError::Loader(message.unwrap_or_else(|| "it panicked".into()))))
            }
        }
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        self.promises = None;
        if let Some(thread) = self.thread.take() {
            // A panic was already printed by the thread; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::tests::varied;
    use super::super::dataset::tests::dataset;
    use super::*;
    use crate::audio::tests::Scratch;
    use crate::data::Padding;

    fn parts() -> Vec<(usize, &'static str)> {
        (0..23).map(|i| (3_000 + i * 611, "abc")).collect()
    }

    fn config(workers: usize) -> DataConfig {
        DataConfig {
            workers,
            batch_s: 4.0,
            num_buckets: 3,
            speeds: vec![0.9, 1.0, 1.1],
            prefetch_batches: 2,
            ..DataConfig::default()
        }
    }

    /// Everything that augments is switched on.
    fn train(scratch: &Scratch, data: &Arc<Dataset>, start: Cursor) -> TrainLoader {
        let sampler = Arc::new(Sampler::train(data, 11, Padding::Bucket).unwrap());
        TrainLoader::new(Arc::clone(data), sampler, Arc::new(varied(scratch)), start).unwrap()
    }

    #[test]
    fn a_resumed_sequence_is_the_tail_of_the_uninterrupted_one() {
        let scratch = Scratch::new("loader-resume");
        let data = Arc::new(dataset(&scratch, &parts(), &config(2)));
        let sampler = Sampler::train(&data, 11, Padding::Bucket).unwrap();
        let n = sampler.batches_per_epoch();
        let whole: Vec<(Cursor, Batch)> =
            train(&scratch, &data, Cursor::default()).take(2 * n + 2).map(Result::unwrap).collect();
        assert_eq!(whole[n].0, Cursor { epoch: 1, batch: 0 });
        for cut in [1, n - 1, n, n + 2] {
            let start = sampler.advance(whole[cut - 1].0);
            let tail: Vec<(Cursor, Batch)> =
                train(&scratch, &data, start).take(whole.len() - cut).map(Result::unwrap).collect();
            assert!(tail == whole[cut..], "from {start:?}");
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let scratch = Scratch::new("loader-threads");
        let one = Arc::new(dataset(&scratch, &parts(), &config(1)));
        let two =
            Arc::new(dataset(&scratch, &parts(), &DataConfig { cache_audio_mb: 0, ..config(2) }));
        for (a, b) in train(&scratch, &one, Cursor::default())
            .zip(train(&scratch, &two, Cursor::default()))
            .take(20)
        {
            assert!(a.unwrap() == b.unwrap());
        }
    }

    #[test]
    fn evaluation_is_one_pass_over_everything_as_recorded() {
        let scratch = Scratch::new("loader-eval");
        let data = Arc::new(dataset(&scratch, &parts(), &config(2)));
        let batches: Vec<Batch> =
            EvalLoader::new(Arc::clone(&data)).unwrap().map(Result::unwrap).collect();
        let seen: Vec<usize> = batches.iter().flat_map(|batch| batch.utterances.clone()).collect();
        assert_eq!(seen, (0..23).collect::<Vec<_>>(), "the shortest first");
        let audio_s: f64 = batches.iter().map(|batch| batch.audio_s).sum();
        assert!((audio_s - data.audio_s()).abs() < 1e-9);
        for batch in &batches {
            assert!(
                batch.padded_s <= 4.0 + 1e-9
                    && batch.audio_s <= batch.padded_s + 0.01 * batch.len() as f64
            );
            for (len, index) in batch.frame_lens.iter().zip(&batch.utterances) {
                assert_eq!(*len, data.num_frames(*index, 1.0));
            }
        }
    }

    #[test]
    fn a_recording_that_vanishes_ends_an_evaluation_in_its_place() {
        let scratch = Scratch::new("loader-error");
        let data =
            Arc::new(dataset(&scratch, &parts(), &DataConfig { cache_audio_mb: 0, ..config(1) }));
        std::fs::remove_file(scratch.0.join("u22.wav")).unwrap();
        let results: Vec<_> = EvalLoader::new(Arc::clone(&data)).unwrap().collect();
        let (last, before) = results.split_last().unwrap();
        assert!(before.iter().all(Result::is_ok) && !before.is_empty());
        let error = last.as_ref().unwrap_err().to_string();
        assert!(error.contains("\"u22\"") && error.contains("u22.wav"), "{error}");
    }

    #[test]
    fn a_recording_that_vanishes_is_left_out_of_training_and_a_resumed_run_is_the_same() {
        let scratch = Scratch::new("loader-bad");
        let config = DataConfig { cache_audio_mb: 0, max_bad_percent: 10.0, ..config(2) };
        let data = Arc::new(dataset(&scratch, &parts(), &config));
        let sampler = Sampler::train(&data, 11, Padding::Bucket).unwrap();
        let n = sampler.batches_per_epoch();
        let take = |start, count| -> Vec<(Cursor, Batch)> {
            train(&scratch, &data, start).take(count).map(Result::unwrap).collect()
        };
        let sound = take(Cursor::default(), 2 * n);
        std::fs::remove_file(scratch.0.join("u22.wav")).unwrap();
        scratch.write("u3.wav", b"RIFF\x04\0\0\0WAVE");
        let bad = take(Cursor::default(), 2 * n);
        for ((at, batch), (_, sound)) in bad.iter().zip(&sound) {
            let expected: Vec<usize> =
                sound.utterances.iter().copied().filter(|u| ![3, 22].contains(u)).collect();
            assert_eq!(batch.utterances, expected, "{at:?}");
            assert_eq!(batch.num_frames, sound.num_frames);
        }
        for cut in [1, n - 1, n + 2] {
            assert!(take(sampler.advance(bad[cut - 1].0), 2 * n - cut) == bad[cut..], "{cut}");
        }
        let mut loader = train(&scratch, &data, Cursor::default());
        assert_eq!(loader.by_ref().take(3 * n).filter(Result::is_err).count(), 0);
        assert_eq!(loader.left_out().iter().copied().collect::<Vec<_>>(), [3, 22]);
    }

    #[test]
    fn more_bad_recordings_than_allowed_end_the_sequence_by_name() {
        let scratch = Scratch::new("loader-too-bad");
        let data =
            Arc::new(dataset(&scratch, &parts(), &DataConfig { cache_audio_mb: 0, ..config(2) }));
        for i in [4, 9] {
            std::fs::remove_file(scratch.0.join(format!("u{i}.wav"))).unwrap();
        }
        let mut loader = train(&scratch, &data, Cursor::default());
        let error = loader.by_ref().find_map(Result::err).unwrap().to_string();
        for words in ["2 of 23", "data.max_bad_percent = 1", "No such file"] {
            assert!(error.contains(words), "{error}");
        }
        assert!(loader.next().is_none(), "an endless sequence ends with its fault");
    }

    #[test]
    fn no_more_batches_exist_than_the_queue_and_the_one_in_hand() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static ALIVE: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                ALIVE.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let config = DataConfig { prefetch_batches: 3, ..config(4) };
        let mut ahead = Ahead::start(&config, 0..200, |_| {
            MOST.fetch_max(ALIVE.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            Ok(Counted)
        })
        .unwrap();
        let mut taken = 0;
        while let Some(value) = ahead.next() {
            value.unwrap();
            taken += 1;
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        assert_eq!(taken, 200);
        // The thread may begin the next while the last is in hand.
        assert!(MOST.load(Ordering::SeqCst) <= 3 + 2, "{MOST:?}");
    }

    #[test]
    fn values_arrive_in_order_whatever_finishes_first() {
        let mut ahead = Ahead::start(&config(3), 0..50_u64, |place| {
            std::thread::sleep(std::time::Duration::from_micros(place * 7_919 % 1_000));
            Ok(place)
        })
        .unwrap();
        let values: Vec<u64> = std::iter::from_fn(|| ahead.next()).map(Result::unwrap).collect();
        assert_eq!(values, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn dropping_a_loader_half_way_ends_its_thread() {
        let scratch = Scratch::new("loader-drop");
        let data = Arc::new(dataset(&scratch, &parts(), &config(2)));
        for taken in [0, 1, 5] {
            let mut loader = train(&scratch, &data, Cursor::default());
            for _ in 0..taken {
                loader.next().unwrap().unwrap();
            }
            drop(loader);
        }
        assert_eq!(Arc::strong_count(&data), 1, "no thread holds the data");
    }

    #[test]
    fn a_panic_of_a_worker_arrives_as_an_error() {
        let mut ahead: Ahead<u32> = Ahead::start(&config(1), 0.., |place| {
            assert!(place < 1, "on purpose");
            Ok(7)
        })
        .unwrap();
        assert_eq!(ahead.next().unwrap().unwrap(), 7);
        let error = ahead.next().unwrap().unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        assert!(ahead.next().is_none());
    }
}
