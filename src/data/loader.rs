//! Batches made ready ahead of the device: one thread runs through the plan, a pool of its own makes
//! the utterances of a batch in parallel, a bounded channel holds what is ready. Faults arrive as
//! values in the place of the batch they concern, and end the sequence. Dropping a loader stops and
//! joins its thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::batch::{Augmentation, make};
use super::{Batch, Cursor, DataConfig, DataError, Dataset, Sampler};
use crate::features::SpecAugmentConfig;

/// A sequence of prepared values; see [`TrainLoader`] and [`EvalLoader`].
pub struct Loader<T> {
    ready: Option<Receiver<Result<T, DataError>>>,
    thread: Option<JoinHandle<()>>,
}

/// Training batches for ever, each with its place. [`Sampler::advance`] of the last place seen is
/// where a resumed run starts.
pub type TrainLoader = Loader<(Cursor, Batch)>;

/// One pass over a dataset by length, nothing augmented.
pub type EvalLoader = Loader<Batch>;

impl Loader<(Cursor, Batch)> {
    /// Starts at `start`; the batches are those of an uninterrupted run from there on.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(
        dataset: Arc<Dataset>,
        sampler: Arc<Sampler>,
        spec_augment: SpecAugmentConfig,
        start: Cursor,
    ) -> Result<TrainLoader, DataError> {
        let augmentation = Augmentation { seed: sampler.seed(), spec_augment };
        let config = dataset.config().clone();
        Loader::spawn(&config, move |pool, send| {
            // A cursor of a run with other data may point past the epoch: the next one follows.
            let mut cursor = start;
            loop {
                let plan = sampler.epoch(cursor.epoch);
                for (batch, planned) in plan.batches().iter().enumerate().skip(cursor.batch) {
                    let epoch = Some((&augmentation, cursor.epoch));
                    let made = pool.install(|| make(&dataset, planned, epoch));
                    let at = Cursor { batch, ..cursor };
                    if !send(made.map(|batch| (at, batch))) {
                        return;
                    }
                }
                cursor = Cursor { epoch: cursor.epoch + 1, batch: 0 };
            }
        })
    }
}

impl Loader<Batch> {
    /// Starts one pass.
    ///
    /// # Errors
    /// When no thread can be started, or an utterance is longer than `data.batch_s`.
    pub fn new(dataset: Arc<Dataset>) -> Result<EvalLoader, DataError> {
        let plan = Sampler::eval(&dataset)?.in_order();
        let config = dataset.config().clone();
        Loader::spawn(&config, move |pool, send| {
            for planned in plan.batches() {
                if !send(pool.install(|| make(&dataset, planned, None))) {
                    return;
                }
            }
        })
    }
}

impl<T: Send + 'static> Loader<T> {
    /// Runs `produce` on a thread. It is given the pool to work on and a way to send, which says
    /// whether to go on.
    fn spawn(
        config: &DataConfig,
        produce: impl FnOnce(&ThreadPool, &dyn Fn(Result<T, DataError>) -> bool) + Send + 'static,
    ) -> Result<Loader<T>, DataError> {
        let failed = |error: &dyn std::fmt::Display| DataError::Loader(error.to_string());
        let pool = ThreadPoolBuilder::new()
            .num_threads(config.num_workers())
            .thread_name(|i| format!("features-{i}"))
            .build()
            .map_err(|error| failed(&error))?;
        let (sender, ready) = sync_channel(config.prefetch_batches);
        let thread = std::thread::Builder::new()
            .name("loader".into())
            .spawn(move || {
                produce(&pool, &|value| {
                    let go_on = value.is_ok();
                    sender.send(value).is_ok() && go_on
                });
            })
            .map_err(|error| failed(&error))?;
        Ok(Loader { ready: Some(ready), thread: Some(thread) })
    }
}

impl<T> Iterator for Loader<T> {
    type Item = Result<T, DataError>;

    fn next(&mut self) -> Option<Result<T, DataError>> {
        if let Ok(value) = self.ready.as_ref()?.recv() {
            return Some(value);
        }
        // The thread is gone: at the end of its plan, after a fault it has told, or by a panic.
        self.ready = None;
        let panic = self.thread.take()?.join().err()?;
        let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
        Some(Err(DataError::Loader(message.unwrap_or_else(|| "it panicked".into()))))
    }
}

impl<T> Drop for Loader<T> {
    fn drop(&mut self) {
        // Without a receiver the thread's next send fails, and it ends.
        self.ready = None;
        if let Some(thread) = self.thread.take() {
            // A panic was already printed by the thread; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
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

    fn train(data: &Arc<Dataset>, start: Cursor) -> TrainLoader {
        let sampler = Arc::new(Sampler::train(data, 11, Padding::Bucket).unwrap());
        TrainLoader::new(Arc::clone(data), sampler, SpecAugmentConfig::default(), start).unwrap()
    }

    #[test]
    fn a_resumed_sequence_is_the_tail_of_the_uninterrupted_one() {
        let scratch = Scratch::new("loader-resume");
        let data = Arc::new(dataset(&scratch, &parts(), &config(2)));
        let sampler = Sampler::train(&data, 11, Padding::Bucket).unwrap();
        let n = sampler.batches_per_epoch();
        let whole: Vec<(Cursor, Batch)> =
            train(&data, Cursor::default()).take(2 * n + 2).map(Result::unwrap).collect();
        assert_eq!(whole[n].0, Cursor { epoch: 1, batch: 0 });
        for cut in [1, n - 1, n, n + 2] {
            let start = sampler.advance(whole[cut - 1].0);
            let tail: Vec<(Cursor, Batch)> =
                train(&data, start).take(whole.len() - cut).map(Result::unwrap).collect();
            assert!(tail == whole[cut..], "from {start:?}");
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let scratch = Scratch::new("loader-threads");
        let one = Arc::new(dataset(&scratch, &parts(), &config(1)));
        let two =
            Arc::new(dataset(&scratch, &parts(), &DataConfig { cache_audio_mb: 0, ..config(2) }));
        for (a, b) in train(&one, Cursor::default()).zip(train(&two, Cursor::default())).take(20) {
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
    fn a_recording_that_vanishes_is_an_error_in_its_place_and_ends_the_sequence() {
        let scratch = Scratch::new("loader-error");
        let data =
            Arc::new(dataset(&scratch, &parts(), &DataConfig { cache_audio_mb: 0, ..config(1) }));
        std::fs::remove_file(scratch.0.join("u22.wav")).unwrap();
        let results: Vec<_> = EvalLoader::new(Arc::clone(&data)).unwrap().collect();
        let (last, before) = results.split_last().unwrap();
        assert!(before.iter().all(Result::is_ok) && !before.is_empty());
        let error = last.as_ref().unwrap_err().to_string();
        assert!(error.contains("\"u22\"") && error.contains("u22.wav"), "{error}");
        let mut loader = train(&data, Cursor::default());
        assert!(
            loader.by_ref().any(|result| result.is_err()),
            "an endless sequence ends with its fault"
        );
        assert!(loader.next().is_none());
    }

    #[test]
    fn dropping_a_loader_half_way_ends_its_thread() {
        let scratch = Scratch::new("loader-drop");
        let data = Arc::new(dataset(&scratch, &parts(), &config(2)));
        for taken in [0, 1, 5] {
            let mut loader = train(&data, Cursor::default());
            for _ in 0..taken {
                loader.next().unwrap().unwrap();
            }
            drop(loader);
        }
        assert_eq!(Arc::strong_count(&data), 1, "no thread holds the data");
    }

    #[test]
    fn a_panic_of_the_thread_arrives_as_an_error() {
        let mut loader: Loader<u32> = Loader::spawn(&config(1), |_, send| {
            send(Ok(7));
            panic!("on purpose");
        })
        .unwrap();
        assert_eq!(loader.next().unwrap().unwrap(), 7);
        let error = loader.next().unwrap().unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        assert!(loader.next().is_none());
    }
}
