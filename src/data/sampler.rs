//! Which utterances share a batch, and in which order batches come.
//!
//! Utterances of similar length share a bucket. A batch is bounded by its padded length times its
//! count; a bound on the sum of lengths lets one long utterance blow up a batch of short ones. An epoch
//! is a pure function of (seed, epoch): a run is resumed by computing where it was, not by replaying it.

use rand::Rng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::random::{Purpose, stream};
use super::{DataConfig, DataError, Dataset, balance};
use crate::audio::perturbed_len;
use crate::features::LogMelConfig;

/// Padded lengths are multiples of this many frames.
const FRAME_MULTIPLE: usize = 8;

/// Distinct lengths that the search for buckets looks at.
const MAX_STEPS: usize = 1_000;

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

/// All batches of one pass, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochPlan {
    batches: Vec<PlannedBatch>,
}

impl EpochPlan {
    /// The batches.
    pub fn batches(&self) -> &[PlannedBatch] {
        &self.batches
    }
}

struct Bucket {
    /// Shortest first.
    members: Vec<usize>,
    num_frames: usize,
    batch_len: usize,
}

/// Length buckets of a dataset.
pub struct Sampler {
    buckets: Vec<Bucket>,
    seed: u64,
    speeds: Vec<f64>,
    padding: Padding,
    max_batch_utterances: usize,
    /// Samples of each utterance, and what counts their frames.
    num_samples: Vec<usize>,
    features: LogMelConfig,
}

impl Sampler {
    /// Buckets for training: lengths are those at the slowest of the dataset's speeds.
    ///
    /// # Errors
    /// [`DataError::LongerThanBatch`] when an utterance exceeds `data.batch_s` on its own,
    /// [`DataError::NothingLeft`] when there is none.
    pub fn train(dataset: &Dataset, seed: u64, padding: Padding) -> Result<Sampler, DataError> {
        Sampler::new(dataset, seed, dataset.config().speeds.clone(), padding)
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
        if dataset.items().is_empty() {
            return Err(DataError::NothingLeft {
                total: 0,
                reasons: "the dataset is empty".into(),
            });
        }
        let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let lens: Vec<usize> =
            (0..dataset.items().len()).map(|i| dataset.num_frames(i, slowest)).collect();
        let (config, hop_s) = (dataset.config(), dataset.log_mel().config().hop_s());
        let buckets =
            buckets(&lens, config, hop_s).map_err(|longest| DataError::LongerThanBatch {
                id: dataset.items()[longest].utterance.id().to_owned(),
                padded_s: padded_len(lens[longest]) as f64 * hop_s,
                batch_s: config.batch_s,
            })?;
        let num_samples = dataset.items().iter().map(|item| item.num_samples).collect();
        let features = dataset.log_mel().config().clone();
        let max_batch_utterances = config.max_batch_utterances;
        Ok(Sampler { buckets, seed, speeds, padding, max_batch_utterances, num_samples, features })
    }

    /// The seed of this order.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Batches of an epoch: the same number in each.
    pub fn batches_per_epoch(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.members.len().div_ceil(bucket.batch_len)).sum()
    }

    /// The buckets, shortest first: the padded length, the members, and how many of them the
    /// bound of a batch allows.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, &[usize], usize)> {
        self.buckets.iter().map(|bucket| {
            let batch_len = bucket.batch_len.min(bucket.members.len());
            (bucket.num_frames, bucket.members.as_slice(), batch_len)
        })
    }

    /// The distinct shapes of batches, `(utterances, frames)`, the largest first; with
    /// [`Padding::Longest`] no batch has more elements than the first. A device that survives it
    /// survives them all.
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

    /// The shuffled batches of an epoch.
    pub fn epoch(&self, epoch: u64) -> EpochPlan {
        let mut batches = Vec::with_capacity(self.batches_per_epoch());
        for (index, bucket) in self.buckets.iter().enumerate() {
            let mut members = bucket.members.clone();
            members.shuffle(&mut stream(self.seed, epoch, Purpose::Shuffle, index as u64));
            let mut played: Vec<Played> = members
                .into_iter()
                .map(|utterance| self.play(utterance, self.speed(epoch, utterance)))
                .collect();
            for group in played.chunks_mut(bucket.batch_len * SORTED_BATCHES) {
                group.sort_by_key(|played| played.num_frames);
                batches.extend(self.plan(bucket, group));
            }
        }
        batches.shuffle(&mut stream(self.seed, epoch, Purpose::Order, 0));
        EpochPlan { batches }
    }

    /// The batches by length, the shortest first, as recorded.
    pub fn in_order(&self) -> EpochPlan {
        let plan = |bucket: &Bucket| {
            let played: Vec<Played> =
                bucket.members.iter().map(|utterance| self.play(*utterance, 1.0)).collect();
            self.plan(bucket, &played)
        };
        EpochPlan { batches: self.buckets.iter().flat_map(plan).collect() }
    }

    /// The speed that an utterance draws in an epoch.
    fn speed(&self, epoch: u64, utterance: usize) -> f64 {
        let mut draws = stream(self.seed, epoch, Purpose::Speed, utterance as u64);
        self.speeds[draws.random_range(0..self.speeds.len() as u32) as usize]
    }

    fn play(&self, utterance: usize, speed: f64) -> Played {
        let num_samples = perturbed_len(self.num_samples[utterance], speed);
        Played { utterance, speed, num_frames: self.features.num_frames(num_samples) }
    }

    /// Batches of `members`, which are sorted by length where it matters.
    fn plan(&self, bucket: &Bucket, members: &[Played]) -> Vec<PlannedBatch> {
        let counts = match self.padding {
            Padding::Bucket => members.chunks(bucket.batch_len).map(<[_]>::len).collect(),
            Padding::Longest => {
                let lens: Vec<usize> =
                    members.iter().map(|played| padded_len(played.num_frames)).collect();
                let num_batches = members.len().div_ceil(bucket.batch_len);
                balance::partition(&lens, num_batches, self.max_batch_utterances)
            }
        };
        let mut members = members.iter();
        let batch = |count| {
            let members: Vec<&Played> = members.by_ref().take(count).collect();
            let longest = members.iter().map(|played| played.num_frames).max();
            PlannedBatch {
                utterances: members.iter().map(|played| played.utterance).collect(),
                speeds: members.iter().map(|played| played.speed).collect(),
                num_frames: match self.padding {
                    Padding::Bucket => bucket.num_frames,
                    Padding::Longest => padded_len(longest.unwrap_or(0)),
                },
            }
        };
        counts.into_iter().map(batch).collect()
    }
}

/// An utterance as it is heard in one epoch.
#[derive(Clone, Copy)]
struct Played {
    utterance: usize,
    speed: f64,
    num_frames: usize,
}

/// At least one frame, so that even an utterance without any has a place.
fn padded_len(num_frames: usize) -> usize {
    num_frames.max(1).next_multiple_of(FRAME_MULTIPLE)
}

/// The partition into at most `data.num_buckets` runs of similar length that pads least in all.
/// `Err` is the utterance that is longer than a batch.
fn buckets(lens: &[usize], config: &DataConfig, hop_s: f64) -> Result<Vec<Bucket>, usize> {
    let mut order: Vec<usize> = (0..lens.len()).collect();
    order.sort_by_key(|index| (lens[*index], *index));
    let mut steps: Vec<(usize, usize)> = Vec::new();
    for index in &order {
        let padded = padded_len(lens[*index]);
        match steps.last_mut() {
            Some((len, count)) if *len == padded => *count += 1,
            _ => steps.push((padded, 1)),
        }
    }
    let mut members = order.into_iter();
    let mut buckets = Vec::new();
    for (num_frames, count) in least_padding(&coarser(steps), config.num_buckets) {
        let members: Vec<usize> = members.by_ref().take(count).collect();
        // A grain of tolerance: 120 s are 12000 frames of 10 ms, whatever the rounding of 0.01.
        let batch_len = (config.batch_s / (num_frames as f64 * hop_s) * (1.0 + 1e-9)) as usize;
        if batch_len == 0 {
            return Err(*members.last().expect("no bucket is empty"));
        }
        let batch_len = batch_len.min(config.max_batch_utterances);
        buckets.push(Bucket { members, num_frames, batch_len });
    }
    Ok(buckets)
}

/// Merges neighbouring lengths until there are few enough for a search that is quadratic in them.
fn coarser(mut steps: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    while steps.len() > MAX_STEPS {
        steps = steps
            .chunks(2)
            .map(|pair| (pair[pair.len() - 1].0, pair.iter().map(|(_, count)| count).sum()))
            .collect();
    }
    steps
}

/// `steps` are (length, count), shortest first. Joins neighbours into at most `num_buckets` runs, each
/// as long as its longest, with the least sum of length times count.
fn least_padding(steps: &[(usize, usize)], num_buckets: usize) -> Vec<(usize, usize)> {
    let n = steps.len();
    let mut before = vec![0];
    for (_, count) in steps {
        before.push(before[before.len() - 1] + count);
    }
    // best[j]: the cost of the first j steps in as many runs as rounds have passed; starts[k][j]: where
    // the last of those runs begins.
    let mut best: Vec<usize> =
        (0..=n).map(|j| if j == 0 { 0 } else { before[j] * steps[j - 1].0 }).collect();
    let mut starts = vec![vec![0; n + 1]];
    for _ in 1..num_buckets.min(n) {
        let (mut next, mut start) = (best.clone(), vec![0; n + 1]);
        for j in 1..=n {
            let cost = |i: usize| best[i] + (before[j] - before[i]) * steps[j - 1].0;
            let first = (0..j).min_by_key(|i| cost(*i)).expect("j is at least 1");
            (next[j], start[j]) = (cost(first), first);
        }
        best = next;
        starts.push(start);
    }
    let mut runs = Vec::new();
    let mut end = n;
    for start in starts.iter().rev() {
        if end > start[end] {
            runs.push((steps[end - 1].0, before[end] - before[start[end]]));
        }
        end = start[end];
    }
    runs.reverse();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    const SPEEDS: [f64; 3] = [0.8, 1.0, 1.25];

    /// Of utterances of so many frames when played slowest.
    fn sampler(lens: &[usize], config: &DataConfig, seed: u64, padding: Padding) -> Sampler {
        let features = LogMelConfig::default();
        Sampler {
            buckets: buckets(lens, config, 0.01).unwrap(),
            seed,
            speeds: SPEEDS.to_vec(),
            padding,
            max_batch_utterances: config.max_batch_utterances,
            num_samples: lens.iter().map(|len| len * features.hop_len() * 4 / 5).collect(),
            features,
        }
    }

    fn lens(seed: u64, count: usize) -> Vec<usize> {
        let mut rng = stream(seed, 0, Purpose::Shuffle, 0);
        (0..count).map(|_| rng.random_range(1..2_000_u32) as usize).collect()
    }

    #[test]
    fn a_batch_never_exceeds_longest_times_count_and_every_utterance_comes_once() {
        for seed in 0..50 {
            let lens = lens(seed, 1 + (seed as usize * 37) % 400);
            let config = DataConfig {
                batch_s: 20.0 + seed as f64,
                max_batch_utterances: 16,
                num_buckets: 1 + seed as usize % 9,
                ..DataConfig::default()
            };
            let padding = [Padding::Bucket, Padding::Longest][seed as usize % 2];
            let sampler = sampler(&lens, &config, seed, padding);
            assert!(sampler.buckets.len() <= config.num_buckets);
            let (most, frames) = sampler.shapes()[0];
            for plan in [sampler.epoch(3), sampler.in_order()] {
                assert_eq!(plan.batches().len(), sampler.batches_per_epoch());
                let mut seen: Vec<usize> = Vec::new();
                for batch in plan.batches() {
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
                    assert!(batch.utterances.len() * batch.num_frames <= most * frames);
                    assert!(
                        (batch.utterances.len() * batch.num_frames) as f64 * 0.01
                            <= config.batch_s + 1e-6
                    );
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
            let plan = sampler(&lens, &config, 1, padding).epoch(0);
            let costs = plan.batches().iter().map(|b| b.utterances.len() * b.num_frames);
            (plan.batches().len(), costs.sum::<usize>())
        };
        let ((bucket, of_bucket), (longest, of_longest)) =
            (padded(Padding::Bucket), padded(Padding::Longest));
        assert_eq!(bucket, longest);
        assert!(of_longest * 4 < of_bucket * 3, "{of_longest} of {of_bucket}");
    }

    #[test]
    fn no_other_partition_pads_less() {
        /// The least cost of all partitions, by trying them.
        fn least(steps: &[(usize, usize)], runs: usize) -> usize {
            let Some((longest, _)) = steps.last() else {
                return 0;
            };
            if runs == 0 {
                return usize::MAX;
            }
            (0..steps.len())
                .map(|i| {
                    let count: usize = steps[i..].iter().map(|(_, count)| count).sum();
                    least(&steps[..i], runs - 1).saturating_add(count * longest)
                })
                .min()
                .unwrap()
        }
        for seed in 0..100 {
            let mut rng = stream(seed, 1, Purpose::Shuffle, 0);
            let mut len = 0;
            let steps: Vec<(usize, usize)> = (0..1 + seed as usize % 8)
                .map(|_| {
                    len += 8 * rng.random_range(1..9_u32) as usize;
                    (len, rng.random_range(1..20_u32) as usize)
                })
                .collect();
            for num_buckets in 1..6 {
                let runs = least_padding(&steps, num_buckets);
                assert!(runs.len() <= num_buckets);
                let cost: usize = runs.iter().map(|(len, count)| len * count).sum();
                assert_eq!(cost, least(&steps, num_buckets), "{steps:?} in {num_buckets}");
            }
        }
    }

    #[test]
    fn thousands_of_distinct_lengths_are_merged_and_none_is_lost() {
        let lens: Vec<usize> = (1..5_000).map(|i| i * 8).collect();
        let config = DataConfig { batch_s: 1e4, ..DataConfig::default() };
        let sampler = sampler(&lens, &config, 0, Padding::Bucket);
        let count: usize = sampler.buckets.iter().map(|bucket| bucket.members.len()).sum();
        assert_eq!((count, sampler.buckets.len()), (lens.len(), config.num_buckets));
    }

    #[test]
    fn an_utterance_longer_than_a_batch_is_named() {
        let config = DataConfig { batch_s: 10.0, ..DataConfig::default() };
        assert_eq!(buckets(&[100, 1_001, 500], &config, 0.01).err(), Some(1));
        assert!(buckets(&[100, 1_000, 500], &config, 0.01).is_ok());
    }

    #[test]
    fn an_epoch_is_a_function_of_seed_and_number() {
        let lens = lens(1, 300);
        let config = DataConfig { batch_s: 40.0, ..DataConfig::default() };
        let of = |seed| sampler(&lens, &config, seed, Padding::Longest);
        let (a, b) = (of(7), of(7));
        assert_eq!(a.epoch(4), b.epoch(4));
        assert_ne!(a.epoch(4), a.epoch(5));
        assert_ne!(a.epoch(4), of(8).epoch(4));
        let mates = |plan: &EpochPlan| {
            plan.batches()
                .iter()
                .map(|b| {
                    let mut mates = b.utterances.clone();
                    mates.sort();
                    mates
                })
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_ne!(mates(&a.epoch(4)), mates(&a.epoch(5)), "mates change, not only the order");
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
