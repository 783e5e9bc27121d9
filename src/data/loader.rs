//! Batches made ready ahead of the device. One thread runs through the plan, a pool of its own makes
//! several batches at once, each batch's utterances in parallel, and a bounded queue holds their places:
//! they arrive in the order of the plan whatever finishes first, and never more than
//! `data.prefetch_batches` and the one in hand exist.
//!
//! A training recording that cannot be read any more is left out of its batch, named once and counted, up
//! to `data.max_bad_percent`; evaluation ends with it, since an error rate over the rest is another set's.
//! Recordings in tar files are read in sequence by a thread of their own, and a batch is begun when all of
//! its are there. Dropping a loader stops and joins its threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use rayon::ThreadPoolBuilder;
use tracing::warn;

use super::batch::{Augmentation, Made, make, make_of};
use super::read_ahead::ReadAhead;
use super::{Batch, Cursor, DataConfig, DataError, Dataset, Sampler};
use crate::augment::Augmenter;
use crate::corpus::ReadCounts;

/// Training batches for ever, each with its place. [`Sampler::advance`] of the last place seen is
/// where a resumed run starts.
pub struct TrainLoader {
    made: Ahead<(Cursor, Made)>,
    dataset: Arc<Dataset>,
    left_out: BTreeSet<usize>,
    read_ahead: Option<Arc<ReadAhead>>,
}

/// One pass over a dataset by length, nothing augmented.
pub struct EvalLoader {
    made: Ahead<Made>,
}

impl TrainLoader {
    /// Starts at `start`; the batches are those of an uninterrupted run from there on. Recordings that
    /// have gone bad since the run began are named.
    ///
    /// # Errors
    /// When no thread can be started, or more than `data.max_bad_percent` have gone bad.
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
        let is_read = (0..dataset.items().len()).any(|index| dataset.member(index).is_some());
        let reading = sampler.reading(first).filter(|_| is_read);
        let start = |(order, max_bytes)| {
            ReadAhead::start(Arc::clone(&dataset), first.epoch, order, max_bytes)
        };
        let read_ahead = reading.map(start).transpose()?.map(Arc::new);
        let (plan, reading) = (Arc::clone(&sampler), read_ahead.clone());
        // On the loader's thread: workers never wait for the disk that a tar file is on.
        let batches = places.map(move |at| {
            let planned = plan.batch(at);
            let take = |utterance: &usize| reading.as_ref()?.take(at.epoch, *utterance);
            let recordings = planned.utterances.iter().map(take).collect::<Vec<_>>();
            (at, planned, recordings)
        });
        let made = Ahead::start(dataset.config(), batches, move |(at, planned, recordings)| {
            let augmentation =
                Augmentation { augmenter: &augmenter, seed: sampler.seed(), epoch: at.epoch };
            Ok((at, make_of(&data, &planned, recordings, Some(augmentation))?))
        })?;
        let gone = dataset.gone().to_vec();
        let mut loader = TrainLoader { made, dataset, left_out: BTreeSet::new(), read_ahead };
        for (utterance, reason) in gone {
            loader.leave_out(utterance, &reason)?;
        }
        Ok(loader)
    }

    /// What reading tar files in sequence took so far, and the most bytes that waited for their batch.
    pub fn read_counts(&self) -> Option<(ReadCounts, u64)> {
        Some(self.read_ahead.as_ref()?.counts())
    }

    /// Utterances that could not be read any more, by their index in the dataset.
    pub fn left_out(&self) -> &BTreeSet<usize> {
        &self.left_out
    }

    /// Names an utterance the first time it is left out.
    fn leave_out(&mut self, utterance: usize, error: &str) -> Result<(), DataError> {
        if !self.left_out.insert(utterance) {
            return Ok(());
        }
        let (count, total) = (self.left_out.len(), self.dataset.items().len());
        let config = self.dataset.config();
        if count > config.max_bad(total) {
            let (limit_percent, last) = (config.max_bad_percent, error.to_owned());
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
                if let Err(error) = self.leave_out(utterance, &error.to_string()) {
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

impl Drop for TrainLoader {
    fn drop(&mut self) {
        // The loader's thread may be waiting for a disk, and is about to be joined.
        if let Some(read_ahead) = &self.read_ahead {
            read_ahead.close();
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
    use super::super::dataset::tests::{dataset, of_utterances};
    use super::super::survey::tests::{corpus, shards};
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

    /// In six tar files and three files of their own, none of them in memory.
    fn in_shards(scratch: &Scratch, workers: usize) -> Arc<Dataset> {
        let config = DataConfig { cache_audio_mb: 0, max_bad_percent: 20.0, ..config(workers) };
        Arc::new(of_utterances(shards(scratch, &parts(), 6, 3), &config))
    }

    #[test]
    fn tar_files_are_read_once_an_epoch_from_front_to_back() {
        let scratch = Scratch::new("loader-shards");
        let data = in_shards(&scratch, 2);
        let n = Sampler::train(&data, 11, Padding::Bucket).unwrap().batches_per_epoch();
        let mut loader = train(&scratch, &data, Cursor::default());
        for epoch in 0..3 {
            let mut seen: Vec<usize> =
                loader.by_ref().take(n).flat_map(|batch| batch.unwrap().1.utterances).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..23).collect::<Vec<_>>(), "epoch {epoch}");
        }
        let (counts, _) = loader.read_counts().unwrap();
        // Those in files of their own are none of these, and no more than an epoch is read ahead.
        assert!((60..60 + 40).contains(&counts.recordings), "{counts:?}");
        // A file that is still open is begun again in the next epoch: its one way back.
        let epochs = counts.recordings.div_ceil(20);
        assert!(counts.opened + counts.backward <= 6 * epochs, "{counts:?}");
        assert!(
            train(&scratch, &Arc::new(dataset(&scratch, &parts(), &config(1))), Cursor::default())
                .read_counts()
                .is_none()
        );
    }

    #[test]
    fn what_is_in_memory_is_not_read_and_the_order_is_the_same() {
        let scratch = Scratch::new("loader-shards-cached");
        let parts: Vec<(usize, &str)> = (0..23).map(|i| (6_000 + i * 611, "abc")).collect();
        let utterances = shards(&scratch, &parts, 6, 0);
        let take = |cache_audio_mb| {
            let config = DataConfig { cache_audio_mb, ..config(2) };
            let data = Arc::new(of_utterances(utterances.clone(), &config));
            let mut loader = train(&scratch, &data, Cursor::default());
            let batches: Vec<_> = loader.by_ref().take(60).map(Result::unwrap).collect();
            (batches, loader.read_counts().map(|(counts, _)| counts))
        };
        let (read, counts) = take(0);
        assert!(counts.unwrap().recordings >= 100);
        let (some, counts) = take(1);
        // 1 MiB holds most of the 23; the same one read again from an open file is read once.
        let counts = counts.unwrap();
        let num_epochs = read.last().unwrap().0.epoch as usize + 1;
        assert!((1..10 * num_epochs).contains(&counts.recordings), "{counts:?}");
        let (all, counts) = take(512);
        assert_eq!(counts, None);
        assert!(read == some && some == all);
    }

    #[test]
    fn a_sequence_from_tar_files_resumes_and_no_thread_changes_it() {
        let scratch = Scratch::new("loader-shards-resume");
        let (one, data) = (in_shards(&scratch, 1), in_shards(&scratch, 3));
        let sampler = Sampler::train(&data, 11, Padding::Bucket).unwrap();
        let n = sampler.batches_per_epoch();
        let take = |data, start, count| -> Vec<(Cursor, Batch)> {
            train(&scratch, data, start).take(count).map(Result::unwrap).collect()
        };
        let whole = take(&data, Cursor::default(), 2 * n + 2);
        assert!(take(&one, Cursor::default(), 2 * n + 2) == whole);
        for cut in [1, n / 2, n - 1, n, n + 2] {
            let start = sampler.advance(whole[cut - 1].0);
            assert!(take(&data, start, whole.len() - cut) == whole[cut..], "from {start:?}");
        }
        // Read by place, the same utterances make the same features in another order.
        let by_place = DataConfig { tar_buffer_mb: 0, ..data.config().clone() };
        let by_place = Arc::new(of_utterances(shards(&scratch, &parts(), 6, 3), &by_place));
        assert!(train(&scratch, &by_place, Cursor::default()).read_counts().is_none());
        let labels = |batches: Vec<(Cursor, Batch)>| {
            let rows = batches
                .into_iter()
                .flat_map(|(_, batch)| batch.utterances.into_iter().zip(batch.frame_lens));
            rows.collect::<BTreeSet<_>>()
        };
        assert_eq!(
            labels(take(&data, Cursor::default(), n)),
            labels(take(&by_place, Cursor::default(), n))
        );
    }

    #[test]
    fn a_tar_file_that_vanishes_costs_its_utterances_and_a_resumed_run_is_the_same() {
        let scratch = Scratch::new("loader-shards-bad");
        let data = in_shards(&scratch, 2);
        let sampler = Sampler::train(&data, 11, Padding::Bucket).unwrap();
        let n = sampler.batches_per_epoch();
        std::fs::remove_file(scratch.0.join("s4.tar")).unwrap();
        let mut loader = train(&scratch, &data, Cursor::default());
        let bad: Vec<_> = loader.by_ref().take(2 * n).map(Result::unwrap).collect();
        let left_out: Vec<&str> =
            loader.left_out().iter().map(|index| data.items()[*index].utterance.id()).collect();
        assert_eq!(left_out, ["u4", "u10", "u16"]);
        drop(loader);
        for cut in [1, n - 1] {
            let start = sampler.advance(bad[cut - 1].0);
            let tail: Vec<_> =
                train(&scratch, &data, start).take(2 * n - cut).map(Result::unwrap).collect();
            assert!(tail == bad[cut..], "{cut}");
        }
    }

    #[test]
    fn a_run_that_goes_on_names_what_went_bad_and_its_batches_stay() {
        use super::super::{Lengths, survey, survey_again};
        use crate::features::LogMelConfig;
        use crate::tokens::Tokens;
        let scratch = Scratch::new("loader-gone");
        let config = DataConfig { cache_audio_mb: 0, max_bad_percent: 10.0, ..config(2) };
        let utterances = corpus(&scratch, &parts());
        let began = survey(utterances.clone(), &config, 16_000, &|| {}).unwrap();
        let lengths = Lengths::of(&began, 16_000);
        let tokens = Tokens::from_transcripts(["abcdefgh "]).unwrap();
        let dataset = |survey| {
            Arc::new(Dataset::new(survey, &tokens, &LogMelConfig::default(), &config).unwrap())
        };
        let data = dataset(began);
        for name in ["u3.wav", "u22.wav"] {
            std::fs::remove_file(scratch.0.join(name)).unwrap();
        }
        let again = survey_again(utterances.clone(), &config, 16_000, Some(&lengths), &|| {});
        let again = dataset(again.unwrap());
        let whole: Vec<_> =
            train(&scratch, &data, Cursor::default()).take(30).map(Result::unwrap).collect();
        let mut resumed = train(&scratch, &again, Cursor::default());
        assert_eq!(resumed.left_out().iter().copied().collect::<Vec<_>>(), [3, 22], "at once");
        assert!(resumed.by_ref().take(30).map(Result::unwrap).collect::<Vec<_>>() == whole);
        std::fs::remove_file(scratch.0.join("u7.wav")).unwrap();
        std::fs::remove_file(scratch.0.join("u8.wav")).unwrap();
        let again = survey_again(utterances, &config, 16_000, Some(&lengths), &|| {}).unwrap();
        let sampler = Sampler::train(&data, 11, Padding::Bucket).unwrap();
        let error = TrainLoader::new(
            dataset(again),
            Arc::new(sampler),
            Arc::new(varied(&scratch)),
            Cursor::default(),
        );
        let error = error.err().unwrap().to_string();
        assert!(error.contains("data.max_bad_percent") && error.contains("of 23"), "{error}");
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
