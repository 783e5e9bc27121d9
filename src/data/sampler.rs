//! Which utterances share a batch, and in which order batches come.
//!
//! Utterances of similar length share a bucket. A batch is bounded by its padded length times its
//! count; a bound on the sum of lengths lets one long utterance blow up a batch of short ones. A batch is
//! a pure function of (seed, epoch, place): a run is resumed by asking for the next one, and neither
//! earlier epochs nor earlier batches are played again. Utterances in tar files are shuffled within what is
//! read of these in sequence (`shard_order`), others over the whole set.

use std::sync::Arc;

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::buckets::{Bucket, buckets, padded_len};
use super::permutation::Permutation;
use super::random::{Purpose, stream};
use super::shard_order::{Queues, ShardOrder, ShardPlan};
use super::{DataConfig, DataError, Dataset, balance};
use crate::audio::perturbed_len;
use crate::features::LogMelConfig;

/// Shuffled batches that are sorted by length among themselves: enough to pad little, few enough that
/// an utterance has other mates in every epoch.
const SORTED_BATCHES: usize = 4;

/// What the utterances of a training batch are padded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// The one length of their bucket, at the slowest speed: few shapes, for devices that choose or
    /// compile kernels for each.
    Bucket,
    /// The longest among them, as played; batches of a bucket differ in count so that their padded
    /// lengths are alike.
    Longest,
}

/// A place in the sequence of training batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Counted from 0.
    pub epoch: u64,
    /// Batch of the epoch, counted from 0.
    pub batch: usize,
}

/// Utterances of one batch and the length they are padded to.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedBatch {
    /// Indices into the dataset.
    pub utterances: Vec<usize>,
    /// The speed at which each is played.
    pub speeds: Vec<f64>,
    /// Frames of the padded batch.
    pub num_frames: usize,
}

/// Length buckets of a dataset.
pub struct Sampler {
    buckets: Vec<Bucket>,
    seed: u64,
    speeds: Vec<f64>,
    padding: Padding,
    config: DataConfig,
    /// Samples of each utterance, and what counts their frames.
    num_samples: Vec<u32>,
    features: LogMelConfig,
    /// The order of what lies in tar files and is read in sequence.
    shards: Option<ShardOrder>,
}

impl Sampler {
    /// Buckets for training: lengths are those at the slowest of the dataset's speeds.
    ///
    /// # Errors
    /// [`DataError::LongerThanBatch`] when an utterance exceeds `data.batch_s` on its own,
    /// [`DataError::NothingLeft`] when there is none.
    pub fn train(dataset: &Dataset, seed: u64, padding: Padding) -> Result<Sampler, DataError> {
        let mut sampler = Sampler::new(dataset, seed, dataset.config().speeds.clone(), padding)?;
        let window_bytes = dataset.config().window_bytes();
        if window_bytes > 0 {
            let member = |index: usize| dataset.items()[index].utterance.member();
            sampler.shards = ShardOrder::new(&sampler.num_samples, window_bytes, member);
        }
        Ok(sampler)
    }

    /// Buckets for evaluation: every utterance as it was recorded.
    ///
    /// # Errors
    /// As [`Sampler::train`].
    pub fn eval(dataset: &Dataset) -> Result<Sampler, DataError> {
        Sampler::new(dataset, 0, vec![1.0], Padding::Bucket)
    }

    fn new(
        dataset: &Dataset,
        seed: u64,
        speeds: Vec<f64>,
        padding: Padding,
    ) -> Result<Sampler, DataError> {
        let num_samples = dataset.items().iter().map(|item| item.num_samples() as u32).collect();
        let features = dataset.log_mel().config();
        Sampler::of_lengths(
            num_samples,
            dataset.config(),
            features,
            speeds,
            seed,
            padding,
            |index| dataset.items()[index].utterance.id().to_owned(),
        )
    }

    /// A sampler of utterances of which only the lengths are known: it takes 8 bytes for each. `id` names
    /// the one that is longer than a batch.
    ///
    /// # Errors
    /// As [`Sampler::train`].
    pub fn of_lengths(
        num_samples: Vec<u32>,
        config: &DataConfig,
        features: &LogMelConfig,
        speeds: Vec<f64>,
        seed: u64,
        padding: Padding,
        id: impl Fn(usize) -> String,
    ) -> Result<Sampler, DataError> {
        if num_samples.is_empty() {
            return Err(DataError::NothingLeft {
                total: 0,
                reasons: "the dataset is empty".into(),
            });
        }
        let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let num_frames =
            |len: &u32| features.num_frames(perturbed_len(*len as usize, slowest)) as u32;
        let lens: Vec<u32> = num_samples.iter().map(num_frames).collect();
        let buckets = buckets(&lens, config, features.hop_s()).map_err(|_| {
            // The longest of all, not the first that is too long: its length is what to allow.
            let longest = (0..lens.len()).max_by_key(|&index| lens[index]).unwrap_or(0);
            let padded_s = padded_len(lens[longest] as usize) as f64 * features.hop_s();
            DataError::LongerThanBatch {
                id: id(longest),
                padded_s,
                counted_s: config.counted_s(padded_s),
                batch_s: config.batch_s,
            }
        })?;
        // Lists of manifests are of no use here.
        let none = Vec::new;
        let config = DataConfig { train: none(), dev: none(), test: none(), ..config.clone() };
        let features = features.clone();
        let shards = None;
        Ok(Sampler { buckets, seed, speeds, padding, config, num_samples, features, shards })
    }

    /// The seed of this order.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Batches of an epoch: the same number in each.
    pub fn batches_per_epoch(&self) -> usize {
        self.buckets.iter().map(Bucket::num_batches).sum()
    }

    /// The buckets, shortest first: the padded length, the members, and how many of them the
    /// bound of a batch allows.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, &[u32], usize)> {
        self.buckets.iter().map(|bucket| {
            let batch_len = bucket.batch_len.min(bucket.members.len());
            (bucket.num_frames, bucket.members.as_slice(), batch_len)
        })
    }

    /// The distinct shapes of batches, `(utterances, frames)`, the largest first; with
    /// [`Padding::Longest`] no batch counts for more seconds than the costliest of these. A device that
    /// survives them survives all.
    pub fn shapes(&self) -> Vec<(usize, usize)> {
        let mut shapes: Vec<(usize, usize)> = self
            .buckets
            .iter()
            .flat_map(|bucket| {
                let (full, rest) = (
                    bucket.members.len() / bucket.batch_len,
                    bucket.members.len() % bucket.batch_len,
                );
                let full = (full > 0).then_some((bucket.batch_len, bucket.num_frames));
                full.into_iter().chain((rest > 0).then_some((rest, bucket.num_frames)))
            })
            .collect();
        shapes.sort_by_key(|(count, frames)| std::cmp::Reverse((count * frames, *frames)));
        shapes
    }

    /// The batch after `cursor`.
    pub fn advance(&self, cursor: Cursor) -> Cursor {
        if cursor.batch + 1 < self.batches_per_epoch() {
            Cursor { batch: cursor.batch + 1, ..cursor }
        } else {
            Cursor { epoch: cursor.epoch + 1, batch: 0 }
        }
    }

    /// The batch at a place, which must lie within its epoch. Its cost does not depend on the place,
    /// but that the first of an epoch in tar files makes the plan of all.
    pub fn batch(&self, at: Cursor) -> PlannedBatch {
        let plan = self.shard_plan(at.epoch);
        let number = match &plan {
            Some(plan) => plan.batches[at.batch] as usize,
            None => {
                let mut order = stream(self.seed, at.epoch, Purpose::Order, 0);
                Permutation::new(self.batches_per_epoch(), &mut order).at(at.batch)
            }
        };
        let (index, batch) = self.locate(number);
        let bucket = &self.buckets[index];
        let mut shuffle = stream(self.seed, at.epoch, Purpose::Shuffle, index as u64);
        let shuffle = Permutation::new(bucket.members.len(), &mut shuffle);
        let member = |place: usize| match &plan {
            Some(plan) => plan.members[index][place],
            None => bucket.members[shuffle.at(place)],
        };
        // The batch is one of a few that were dealt together.
        let group_len = bucket.batch_len * SORTED_BATCHES;
        let first = batch / SORTED_BATCHES * group_len;
        let mut group: Vec<Played> = (first..bucket.members.len().min(first + group_len))
            .map(|place| member(place) as usize)
            .map(|utterance| self.play(utterance, self.speed(at.epoch, utterance)))
            .collect();
        group.sort_by_key(|played| played.num_frames);
        self.cut(bucket, &group, batch % SORTED_BATCHES)
    }

    /// The plan of an epoch whose recordings are read in sequence.
    fn shard_plan(&self, epoch: u64) -> Option<Arc<ShardPlan>> {
        let shards = self.shards.as_ref()?;
        let sizes = self.buckets.iter().map(|bucket| bucket.batch_len * SORTED_BATCHES);
        let slowest = self.speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let bucket_of = |utterance: u32| {
            let num_samples = self.num_samples[utterance as usize] as usize;
            let len = self.features.num_frames(perturbed_len(num_samples, slowest));
            self.buckets.partition_point(|bucket| bucket.num_frames < padded_len(len))
        };
        let queues = Queues {
            groups: &sizes.map(|size| (size, SORTED_BATCHES)).collect::<Vec<_>>(),
            num_batches: &self.buckets.iter().map(Bucket::num_batches).collect::<Vec<_>>(),
            bucket_of: &bucket_of,
        };
        Some(shards.plan(self.seed, epoch, &queues))
    }

    /// The order in which recordings are read from `start` on, for ever: what has to be read of tar files
    /// for the batches that are to come; and how many bytes of it may wait for their batch. `None` when
    /// nothing is read in sequence.
    pub(super) fn reading(
        self: &Arc<Self>,
        start: Cursor,
    ) -> Option<(impl Iterator<Item = (u64, usize)> + Send + use<>, u64)> {
        let max_bytes = self.shards.as_ref()?.max_kept_bytes();
        let sampler = Arc::clone(self);
        let order = (start.epoch..).flat_map(move |epoch| {
            let plan = sampler.shard_plan(epoch).expect("there are shards");
            // What earlier batches took is not read again.
            let mut is_taken = Vec::new();
            if epoch == start.epoch && start.batch > 0 {
                is_taken.resize(plan.reading.len(), false);
                for batch in 0..start.batch {
                    for utterance in sampler.batch(Cursor { epoch, batch }).utterances {
                        is_taken[utterance] = true;
                    }
                }
            }
            (0..plan.reading.len())
                .map(move |place| plan.reading[place] as usize)
                .filter(move |utterance| !is_taken.get(*utterance).is_some_and(|taken| *taken))
                .map(move |utterance| (epoch, utterance))
        });
        Some((order, max_bytes))
    }

    /// A batch of evaluation: by length, the shortest first, as recorded.
    pub fn in_order(&self, batch: usize) -> PlannedBatch {
        let (index, batch) = self.locate(batch);
        let bucket = &self.buckets[index];
        let members = bucket.members.chunks(bucket.batch_len).nth(batch).unwrap_or_default();
        let played: Vec<Played> =
            members.iter().map(|utterance| self.play(*utterance as usize, 1.0)).collect();
        self.cut(bucket, &played, 0)
    }

    /// The bucket of a batch, and its number there.
    fn locate(&self, mut batch: usize) -> (usize, usize) {
        for (index, bucket) in self.buckets.iter().enumerate() {
            match batch.checked_sub(bucket.num_batches()) {
                Some(behind) => batch = behind,
                None => return (index, batch),
            }
        }
        panic!("the batch lies beyond the end of its epoch");
    }

    /// The speed that an utterance draws in an epoch.
    fn speed(&self, epoch: u64, utterance: usize) -> f64 {
        let mut draws = stream(self.seed, epoch, Purpose::Speed, utterance as u64);
        self.speeds[draws.random_range(0..self.speeds.len() as u32) as usize]
    }

    fn play(&self, utterance: usize, speed: f64) -> Played {
        let num_samples = perturbed_len(self.num_samples[utterance] as usize, speed);
        Played { utterance, speed, num_frames: self.features.num_frames(num_samples) }
    }

    /// One of the batches of `members`, which are sorted by length where it matters.
    fn cut(&self, bucket: &Bucket, members: &[Played], number: usize) -> PlannedBatch {
        let counts: Vec<usize> = match self.padding {
            Padding::Bucket => members.chunks(bucket.batch_len).map(<[_]>::len).collect(),
            Padding::Longest => {
                let costs: Vec<usize> = members.iter().map(|played| self.cost(played)).collect();
                let num_batches = members.len().div_ceil(bucket.batch_len);
                balance::partition(&costs, num_batches, self.config.max_batch_utterances)
            }
        };
        let first: usize = counts[..number].iter().sum();
        let members = &members[first..first + counts[number]];
        let longest = members.iter().map(|played| played.num_frames).max();
        PlannedBatch {
            utterances: members.iter().map(|played| played.utterance).collect(),
            speeds: members.iter().map(|played| played.speed).collect(),
            num_frames: match self.padding {
                Padding::Bucket => bucket.num_frames,
                Padding::Longest => padded_len(longest.unwrap_or(0)),
            },
        }
    }

    /// What an utterance adds to a batch, in frames.
    fn cost(&self, played: &Played) -> usize {
        let (frames, hop_s) = (padded_len(played.num_frames), self.features.hop_s());
        if self.config.quadratic_duration_s > 0.0 {
            (self.config.counted_s(frames as f64 * hop_s) / hop_s) as usize
        } else {
            frames
        }
    }
}

/// An utterance as it is heard in one epoch.
#[derive(Clone, Copy)]
struct Played {
    utterance: usize,
    speed: f64,
    num_frames: usize,
}

#[cfg(test)]
mod tests {
    use super::super::buckets::FRAME_MULTIPLE;
    use super::*;

    const SPEEDS: [f64; 3] = [0.8, 1.0, 1.25];

    /// Of utterances of so many frames when played slowest.
    fn sampler(lens: &[u32], config: &DataConfig, seed: u64, padding: Padding) -> Sampler {
        let features = LogMelConfig::default();
        Sampler {
            buckets: buckets(lens, config, 0.01).unwrap(),
            seed,
            speeds: SPEEDS.to_vec(),
            padding,
            config: config.clone(),
            num_samples: lens.iter().map(|len| len * features.hop_len() as u32 * 4 / 5).collect(),
            features,
            shards: None,
        }
    }

    fn epoch(sampler: &Sampler, epoch: u64) -> Vec<PlannedBatch> {
        let batches = 0..sampler.batches_per_epoch();
        batches.map(|batch| sampler.batch(Cursor { epoch, batch })).collect()
    }

    fn in_order(sampler: &Sampler) -> Vec<PlannedBatch> {
        (0..sampler.batches_per_epoch()).map(|batch| sampler.in_order(batch)).collect()
    }

    fn lens(seed: u64, count: usize) -> Vec<u32> {
        let mut rng = stream(seed, 0, Purpose::Shuffle, 0);
        (0..count).map(|_| rng.random_range(1..2_000_u32)).collect()
    }

    #[test]
    fn a_batch_never_exceeds_longest_times_count_and_every_utterance_comes_once() {
        for seed in 0..50 {
            let lens = lens(seed, 1 + (seed as usize * 37) % 400);
            let config = DataConfig {
                batch_s: 28.0 + seed as f64,
                max_batch_utterances: 16,
                num_buckets: 1 + seed as usize % 9,
                quadratic_duration_s: if seed % 3 == 0 { 60.0 } else { 0.0 },
                ..DataConfig::default()
            };
            let padding = [Padding::Bucket, Padding::Longest][seed as usize % 2];
            let sampler = sampler(&lens, &config, seed, padding);
            assert!(sampler.buckets.len() <= config.num_buckets);
            let (most, frames) = sampler.shapes()[0];
            for plan in [epoch(&sampler, 3), in_order(&sampler)] {
                let mut seen: Vec<usize> = Vec::new();
                for batch in &plan {
                    let played = batch.utterances.iter().zip(&batch.speeds);
                    let longest =
                        played.map(|(u, speed)| sampler.play(*u, *speed).num_frames).max().unwrap();
                    assert!(longest <= batch.num_frames && batch.num_frames % FRAME_MULTIPLE == 0);
                    if padding == Padding::Longest {
                        assert_eq!(batch.num_frames, padded_len(longest));
                    } else {
                        let shape = (batch.utterances.len(), batch.num_frames);
                        assert!(sampler.shapes().contains(&shape));
                    }
                    if config.quadratic_duration_s == 0.0 {
                        assert!(batch.utterances.len() * batch.num_frames <= most * frames);
                    }
                    let counted_s = config.counted_s(batch.num_frames as f64 * 0.01);
                    // Whole frames are compared, so the last of them may be short of a rounding.
                    let slack = 0.01 * batch.utterances.len() as f64;
                    assert!(batch.utterances.len() as f64 * counted_s <= config.batch_s + slack);
                    assert!(batch.utterances.len() <= 16);
                    seen.extend(&batch.utterances);
                }
                seen.sort();
                assert_eq!(seen, (0..lens.len()).collect::<Vec<_>>());
            }
            assert!(sampler.shapes().len() <= 2 * config.num_buckets);
        }
    }

    #[test]
    fn padding_to_the_longest_makes_as_many_batches_of_far_less() {
        let lens = lens(5, 600);
        let config = DataConfig { batch_s: 60.0, num_buckets: 5, ..DataConfig::default() };
        let padded = |padding| {
            let plan = epoch(&sampler(&lens, &config, 1, padding), 0);
            let costs = plan.iter().map(|b| b.utterances.len() * b.num_frames);
            (plan.len(), costs.sum::<usize>())
        };
        let ((bucket, of_bucket), (longest, of_longest)) =
            (padded(Padding::Bucket), padded(Padding::Longest));
        assert_eq!(bucket, longest);
        assert!(of_longest * 4 < of_bucket * 3, "{of_longest} of {of_bucket}");
    }

    #[test]
    fn an_epoch_is_a_function_of_seed_and_number() {
        let lens = lens(1, 300);
        let config = DataConfig { batch_s: 40.0, ..DataConfig::default() };
        let of = |seed| sampler(&lens, &config, seed, Padding::Longest);
        let (a, b) = (of(7), of(7));
        assert_eq!(epoch(&a, 4), epoch(&b, 4));
        assert_ne!(epoch(&a, 4), epoch(&a, 5));
        assert_ne!(epoch(&a, 4), epoch(&of(8), 4));
        let mates = |plan: &[PlannedBatch]| {
            plan.iter()
                .map(|b| {
                    let mut mates = b.utterances.clone();
                    mates.sort();
                    mates
                })
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_ne!(mates(&epoch(&a, 4)), mates(&epoch(&a, 5)), "mates change, not only the order");
    }

    #[test]
    fn the_cursor_runs_through_every_epoch() {
        let config = DataConfig { batch_s: 30.0, ..DataConfig::default() };
        let sampler = sampler(&lens(2, 100), &config, 0, Padding::Bucket);
        let n = sampler.batches_per_epoch();
        let mut cursor = Cursor::default();
        for i in 0..3 * n {
            assert_eq!(cursor, Cursor { epoch: (i / n) as u64, batch: i % n });
            cursor = sampler.advance(cursor);
        }
    }
}
