//! Length buckets: the utterances of each pad to one length, and the lengths are chosen so that all of
//! them together pad least.

use super::DataConfig;

/// Padded lengths are multiples of this many frames.
pub(super) const FRAME_MULTIPLE: usize = 8;

/// Distinct lengths that the search for buckets looks at.
const MAX_STEPS: usize = 1_000;

/// Utterances of similar length.
pub(super) struct Bucket {
    /// Shortest first.
    pub(super) members: Vec<u32>,
    /// What they pad to.
    pub(super) num_frames: usize,
    /// How many of them a batch may hold.
    pub(super) batch_len: usize,
}

impl Bucket {
    /// Batches of an epoch.
    pub(super) fn num_batches(&self) -> usize {
        self.members.len().div_ceil(self.batch_len)
    }
}

/// At least one frame, so that even an utterance without any has a place.
pub(super) fn padded_len(num_frames: usize) -> usize {
    num_frames.max(1).next_multiple_of(FRAME_MULTIPLE)
}

/// The partition into at most `data.num_buckets` runs of similar length that pads least in all.
/// `Err` is the utterance that is longer than a batch.
pub(super) fn buckets(lens: &[u32], config: &DataConfig, hop_s: f64) -> Result<Vec<Bucket>, usize> {
    let count = u32::try_from(lens.len()).expect("no memory holds four billion utterances");
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_unstable_by_key(|index| (lens[*index as usize], *index));
    let mut steps: Vec<(usize, usize)> = Vec::new();
    for index in &order {
        let padded = padded_len(lens[*index as usize] as usize);
        match steps.last_mut() {
            Some((len, count)) if *len == padded => *count += 1,
            _ => steps.push((padded, 1)),
        }
    }
    let mut members = order.into_iter();
    let mut buckets = Vec::new();
    for (num_frames, count) in least_padding(&coarser(steps), config.num_buckets) {
        let members: Vec<u32> = members.by_ref().take(count).collect();
        // A grain of tolerance: 120 s are 12000 frames of 10 ms, whatever the rounding of 0.01.
        let counted_s = config.counted_s(num_frames as f64 * hop_s);
        let batch_len = (config.batch_s / counted_s * (1.0 + 1e-9)) as usize;
        if batch_len == 0 {
            return Err(*members.last().expect("no bucket is empty") as usize);
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
    use rand::Rng;

    use super::super::random::{Purpose, stream};
    use super::*;

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
        let lens: Vec<u32> = (1..5_000).map(|i| i * 8).collect();
        let config = DataConfig { batch_s: 1e4, ..DataConfig::default() };
        let buckets = buckets(&lens, &config, 0.01).unwrap();
        let count: usize = buckets.iter().map(|bucket| bucket.members.len()).sum();
        assert_eq!((count, buckets.len()), (lens.len(), config.num_buckets));
    }

    #[test]
    fn an_utterance_longer_than_a_batch_is_named() {
        let config = DataConfig { batch_s: 10.0, ..DataConfig::default() };
        assert_eq!(buckets(&[100, 1_001, 500], &config, 0.01).err(), Some(1));
        assert!(buckets(&[100, 1_000, 500], &config, 0.01).is_ok());
        let quadratic = DataConfig { quadratic_duration_s: 20.0, ..config };
        assert_eq!(buckets(&[100, 800, 500], &quadratic, 0.01).err(), Some(1), "8 s count 11.2 s");
    }

    #[test]
    fn a_quadratic_penalty_shortens_the_batches_of_long_utterances_most() {
        let lens: Vec<u32> = (0..500).map(|i| if i % 2 == 0 { 200 } else { 2_000 }).collect();
        let plain = DataConfig { batch_s: 200.0, num_buckets: 2, ..DataConfig::default() };
        let quadratic = DataConfig { quadratic_duration_s: 20.0, ..plain.clone() };
        let batch_lens = |config: &DataConfig| -> Vec<usize> {
            buckets(&lens, config, 0.01).unwrap().iter().map(|bucket| bucket.batch_len).collect()
        };
        assert_eq!(batch_lens(&plain), [100, 10]);
        assert_eq!(batch_lens(&quadratic), [90, 5], "2 s count 2.2 s, 20 s count 40 s");
    }
}
