//! Runs of sorted utterances that cost alike when each is padded to its longest.

/// Counts of `num_runs` runs of `lens` (shortest first, at least as many as runs), at most
/// `max_count` in each, such that the costliest run, its count times its longest, costs least.
pub(super) fn partition(lens: &[usize], num_runs: usize, max_count: usize) -> Vec<usize> {
    let whole = lens.len() * lens.last().copied().unwrap_or(0);
    let (mut too_low, mut enough) = (0, whole.max(1));
    while enough - too_low > 1 {
        let limit = too_low + (enough - too_low) / 2;
        match within(lens, limit, max_count) {
            Some(counts) if counts.len() <= num_runs => enough = limit,
            _ => too_low = limit,
        }
    }
    let mut counts = within(lens, enough, max_count).expect("one run of all is within its cost");
    // Fewer would do; the number of batches in an epoch is fixed, and halves cost no more.
    while counts.len() < num_runs {
        let largest = (0..counts.len()).max_by_key(|run| counts[*run]).expect("there is a run");
        let half = counts[largest] / 2;
        counts[largest] -= half;
        counts.insert(largest, half);
    }
    counts
}

/// The fewest runs that cost at most `limit` each, filled from the longest down.
fn within(lens: &[usize], limit: usize, max_count: usize) -> Option<Vec<usize>> {
    let mut counts = Vec::new();
    let mut left = lens;
    while let Some(longest) = left.last() {
        let count = limit.checked_div(*longest).unwrap_or(left.len()).min(max_count);
        if count == 0 {
            return None;
        }
        let count = count.min(left.len());
        counts.push(count);
        left = &left[..left.len() - count];
    }
    counts.reverse();
    Some(counts)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::super::random::{Purpose, stream};
    use super::*;

    fn cost(lens: &[usize], counts: &[usize]) -> usize {
        let mut end = 0;
        let run = |count: &usize| {
            end += count;
            count * lens[end - 1]
        };
        counts.iter().map(run).max().unwrap()
    }

    /// The least cost of all partitions, by trying them.
    fn least(lens: &[usize], num_runs: usize, max_count: usize) -> usize {
        let Some(longest) = lens.last() else {
            return if num_runs == 0 { 0 } else { usize::MAX };
        };
        if num_runs == 0 {
            return usize::MAX;
        }
        (1..=max_count.min(lens.len()))
            .map(|count| {
                let before = least(&lens[..lens.len() - count], num_runs - 1, max_count);
                before.max(count * longest)
            })
            .min()
            .unwrap()
    }

    #[test]
    fn no_other_partition_costs_less_and_none_is_left_out() {
        for seed in 0..300 {
            let mut rng = stream(seed, 0, Purpose::Shuffle, 0);
            let mut lens: Vec<usize> = (0..rng.random_range(1..12_u32))
                .map(|_| 8 * rng.random_range(1..20_u32) as usize)
                .collect();
            lens.sort_unstable();
            for batch_len in 1..5 {
                let num_runs = lens.len().div_ceil(batch_len);
                for max_count in [batch_len, 100] {
                    let counts = partition(&lens, num_runs, max_count);
                    assert_eq!(counts.len(), num_runs);
                    assert_eq!(counts.iter().sum::<usize>(), lens.len());
                    assert!(counts.iter().all(|count| (1..=max_count).contains(count)));
                    let best = least(&lens, num_runs, max_count);
                    assert_eq!(cost(&lens, &counts), best, "{lens:?} in {num_runs}: {counts:?}");
                }
            }
        }
    }
}
