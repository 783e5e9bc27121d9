//! The order of a training set in tar files, such that each file is read front to back once an epoch.
//!
//! Tar files (shards) come in an order drawn anew for each epoch, several at a time and a chunk of each in
//! turn. What is read one after the other up to a bound in bytes is a window: its utterances are shuffled,
//! those of a bucket join the bucket's queue, and whatever makes full batches of a queue comes next, in an
//! order drawn too; the rest waits for the next window. So the number of batches is that of any other
//! order, no batch but the last of each bucket is short, and what has to be in memory is bounded.
//! An epoch's plan is a pure function of (seed, epoch) and takes 8 bytes an utterance while it is used.
//!
//! Recordings in files of their own come among them, in chunks drawn from all over the set.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rand::RngCore;
use rand::seq::SliceRandom;

use super::permutation::Permutation;
use super::random::{Purpose, stream};
use crate::corpus::Span;

/// Shards that are read in turn: neighbours in a shard are often of one speaker or book.
pub(super) const LANES: usize = 8;

/// What a recording of its own is taken for: 16-bit samples.
const BYTES_PER_SAMPLE: u64 = 2;

/// The shards of a training set, cut into chunks.
pub(super) struct ShardOrder {
    /// Utterances by shard and place; behind them those in files of their own.
    by_place: Vec<u32>,
    /// Utterances of `by_place` that lie in shards.
    num_in_shards: usize,
    /// One behind another; each ends where the next starts.
    chunks: Vec<Chunk>,
    /// The first chunk of each shard, in the order of `chunks`.
    shards: Vec<u32>,
    window_bytes: u64,
    /// Of all recordings in shards.
    bytes_in_shards: u64,
    plans: Mutex<Vec<(u64, Arc<ShardPlan>)>>,
}

#[derive(Clone, Copy)]
struct Chunk {
    /// In `by_place`.
    start: u32,
    bytes: u64,
}

/// One epoch.
pub(super) struct ShardPlan {
    /// All utterances, as they are read.
    pub(super) reading: Vec<u32>,
    /// The members of each bucket, as they are batched.
    pub(super) members: Vec<Vec<u32>>,
    /// Numbers of batches, counted through the buckets, as they come.
    pub(super) batches: Vec<u32>,
}

/// What the order has to know of the buckets.
pub(super) struct Queues<'a> {
    /// Members and batches that are dealt together, of each bucket.
    pub(super) groups: &'a [(usize, usize)],
    /// Batches of each bucket.
    pub(super) num_batches: &'a [usize],
    /// The bucket of an utterance.
    pub(super) bucket_of: &'a dyn Fn(u32) -> usize,
}

impl ShardOrder {
    /// `member` is the tar file and the place in it of an utterance, if it lies in one; `None` when none
    /// does. Windows hold at most `window_bytes`, or one recording that is larger.
    pub(super) fn new<'a>(
        num_samples: &[u32],
        window_bytes: u64,
        member: impl Fn(usize) -> Option<(&'a Path, Span)>,
    ) -> Option<ShardOrder> {
        let mut numbers: HashMap<&Path, u32> = HashMap::new();
        let (mut by_place, mut loose) = (Vec::new(), Vec::new());
        for index in 0..num_samples.len() as u32 {
            match member(index as usize) {
                Some((shard, _)) => {
                    let next = numbers.len() as u32;
                    numbers.entry(shard).or_insert(next);
                    by_place.push(index);
                }
                None => loose.push(index),
            }
        }
        if by_place.is_empty() {
            return None;
        }
        let place = |index: u32| {
            let (shard, span) = member(index as usize).expect("it was one a moment ago");
            (numbers[shard], span)
        };
        // Most manifests are in this order, which a stable sort sees; keys beside them would take more
        // memory than all else here.
        by_place.sort_by_key(|&index| {
            let (shard, span) = place(index);
            (shard, span.start)
        });
        let chunk_bytes = window_bytes / LANES as u64;
        let mut order = ShardOrder {
            by_place: Vec::new(),
            num_in_shards: by_place.len(),
            chunks: Vec::new(),
            shards: Vec::new(),
            window_bytes,
            bytes_in_shards: 0,
            plans: Mutex::default(),
        };
        let mut before: Option<(u32, Span)> = None;
        for (at, &index) in by_place.iter().enumerate() {
            let (shard, span) = place(index);
            // Parts of one recording share its bytes, and are never apart.
            if before != Some((shard, span)) {
                let is_new_shard = before.is_none_or(|(before, _)| before != shard);
                order.add(at, span.len, is_new_shard, chunk_bytes);
            }
            before = Some((shard, span));
        }
        order.bytes_in_shards = order.chunks.iter().map(|chunk| chunk.bytes).sum();
        by_place.reserve_exact(loose.len());
        order.by_place = by_place;
        for (at, &index) in loose.iter().enumerate() {
            let bytes = u64::from(num_samples[index as usize]) * BYTES_PER_SAMPLE;
            // A chunk is a shard: these lie in no order that reading could follow.
            let is_full = order.chunks.last().is_none_or(|chunk| chunk.bytes + bytes > chunk_bytes);
            order.add(order.num_in_shards + at, bytes, at == 0 || is_full, chunk_bytes);
        }
        order.by_place.extend(loose);
        Some(order)
    }

    /// Adds the recording at `place` to the last chunk, or to a new one.
    fn add(&mut self, place: usize, bytes: u64, is_new_shard: bool, chunk_bytes: u64) {
        if is_new_shard {
            self.shards.push(self.chunks.len() as u32);
        }
        match self.chunks.last_mut() {
            Some(chunk) if !is_new_shard && chunk.bytes + bytes <= chunk_bytes => {
                chunk.bytes += bytes;
            }
            _ => self.chunks.push(Chunk { start: place as u32, bytes }),
        }
    }

    /// What may wait for its batch: two windows, so that one is read while the other is used up; no more
    /// than an epoch, whose successor's plan is then the furthest that anybody asks for.
    pub(super) fn max_kept_bytes(&self) -> u64 {
        (2 * self.window_bytes).min(self.bytes_in_shards)
    }

    /// The plan of an epoch, made at its first use.
    pub(super) fn plan(&self, seed: u64, epoch: u64, queues: &Queues) -> Arc<ShardPlan> {
        // Plans are whole or not there: a panic elsewhere spoils none.
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = plans.iter().find(|(of, _)| *of == epoch) {
            return Arc::clone(plan);
        }
        // While one epoch ends, the next is read.
        plans.retain(|(of, _)| of + 1 >= epoch);
        let plan = Arc::new(self.make(seed, epoch, queues));
        plans.push((epoch, Arc::clone(&plan)));
        plan
    }

    fn make(&self, seed: u64, epoch: u64, queues: &Queues) -> ShardPlan {
        let mut rng = stream(seed, epoch, Purpose::Shards, 0);
        let loose = Permutation::new(self.by_place.len() - self.num_in_shards, &mut rng);
        let utterance = |place: usize| match place.checked_sub(self.num_in_shards) {
            Some(place) => self.by_place[self.num_in_shards + loose.at(place)],
            None => self.by_place[place],
        };
        let mut plan = ShardPlan {
            reading: Vec::with_capacity(self.by_place.len()),
            members: queues.groups.iter().map(|_| Vec::new()).collect(),
            batches: Vec::new(),
        };
        let mut window = Window { start: 0, bytes: 0 };
        let chunks = |shard: usize| {
            let end = self.shards.get(shard + 1).map_or(self.chunks.len(), |end| *end as usize);
            self.shards[shard] as usize..end
        };
        let order = Permutation::new(self.shards.len(), &mut rng);
        let mut shards = (0..self.shards.len()).map(|place| chunks(order.at(place)));
        let mut lanes: VecDeque<_> = shards.by_ref().take(LANES).collect();
        while let Some(mut lane) = lanes.pop_front() {
            let Some(chunk) = lane.next() else {
                lanes.extend(shards.next());
                continue;
            };
            let bytes = self.chunks[chunk].bytes;
            if window.bytes + bytes > self.window_bytes && window.start < plan.reading.len() {
                plan.close(&mut window, queues, &mut rng, false);
            }
            window.bytes += bytes;
            let end = self.chunks.get(chunk + 1).map_or(self.by_place.len(), |c| c.start as usize);
            plan.reading.extend((self.chunks[chunk].start as usize..end).map(utterance));
            lanes.push_back(lane);
        }
        plan.close(&mut window, queues, &mut rng, true);
        plan
    }
}

/// What was read since the last batches were dealt.
struct Window {
    /// In the plan's order of reading.
    start: usize,
    bytes: u64,
}

impl ShardPlan {
    /// Deals the window's utterances to the buckets, and the batches that are full by now. Behind the
    /// last utterance all batches are.
    fn close(
        &mut self,
        window: &mut Window,
        queues: &Queues,
        rng: &mut impl RngCore,
        is_last: bool,
    ) {
        let is_full: Vec<usize> = self.full_groups(queues);
        let mut shuffled = self.reading[window.start..].to_vec();
        shuffled.shuffle(rng);
        for utterance in shuffled {
            self.members[(queues.bucket_of)(utterance)].push(utterance);
        }
        let first_ready = self.batches.len();
        let mut before = 0;
        let full_by_now = self.full_groups(queues);
        for (bucket, &num_batches) in queues.num_batches.iter().enumerate() {
            let (_, batches) = queues.groups[bucket];
            let end = if is_last { num_batches } else { full_by_now[bucket] * batches };
            let ready = is_full[bucket] * batches..end;
            self.batches.extend(ready.map(|batch| (before + batch) as u32));
            before += num_batches;
        }
        self.batches[first_ready..].shuffle(rng);
        *window = Window { start: self.reading.len(), bytes: 0 };
    }

    fn full_groups(&self, queues: &Queues) -> Vec<usize> {
        let sizes = queues.groups.iter().map(|(members, _)| members);
        self.members.iter().zip(sizes).map(|(members, size)| members.len() / size).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};
    use std::path::PathBuf;

    use rand::Rng;

    use super::super::random::{Purpose, stream};
    use super::*;

    /// Utterances in shards (the number and the place), or in files of their own, of two buckets.
    struct Corpus {
        num_samples: Vec<u32>,
        members: Vec<Option<(usize, Span)>>,
        names: Vec<PathBuf>,
        window_bytes: u64,
    }

    /// Members of a batch, and batches dealt together.
    const BATCH_LENS: [usize; 2] = [4, 3];
    const DEALT: usize = 2;

    impl Corpus {
        fn random(seed: u64) -> Corpus {
            let mut rng = stream(seed, 0, Purpose::Shuffle, 0);
            let num_shards = rng.random_range(1..30_u32) as usize;
            let mut members = Vec::new();
            for shard in 0..num_shards {
                let mut start = 512;
                for _ in 0..rng.random_range(1..60_u32) {
                    let span = Span { start, len: rng.random_range(100..4_000_u64) };
                    // Some recordings have two utterances.
                    for _ in 0..1 + u32::from(rng.random_bool(0.1)) {
                        members.push(Some((shard, span)));
                    }
                    start += span.len + 1_024;
                }
            }
            if seed.is_multiple_of(2) {
                members.resize(members.len() + members.len() / 3, None);
            }
            // Manifests are in any order.
            if seed.is_multiple_of(3) {
                members.shuffle(&mut rng);
            }
            let num_samples = members.iter().map(|_| rng.random_range(50..2_000_u32)).collect();
            let names =
                (0..num_shards).map(|shard| PathBuf::from(format!("{shard}.tar"))).collect();
            Corpus {
                num_samples,
                members,
                names,
                window_bytes: [1, 40_000, 1 << 40][seed as usize % 3],
            }
        }

        fn order(&self) -> ShardOrder {
            let member = |index: usize| {
                let (shard, span) = self.members[index]?;
                Some((self.names[shard].as_path(), span))
            };
            ShardOrder::new(&self.num_samples, self.window_bytes, member).unwrap()
        }

        fn bucket_of(&self, utterance: u32) -> usize {
            usize::from(self.num_samples[utterance as usize] > 900)
        }

        fn num_batches(&self) -> Vec<usize> {
            let members = |bucket| {
                let all = 0..self.num_samples.len() as u32;
                all.filter(|utterance| self.bucket_of(*utterance) == bucket).count()
            };
            (0..2).map(|bucket| members(bucket).div_ceil(BATCH_LENS[bucket])).collect()
        }

        fn plan(&self, order: &ShardOrder, epoch: u64) -> Arc<ShardPlan> {
            let queues = Queues {
                groups: &BATCH_LENS.map(|len| (DEALT * len, DEALT)),
                num_batches: &self.num_batches(),
                bucket_of: &|utterance| self.bucket_of(utterance),
            };
            order.plan(7, epoch, &queues)
        }

        /// The batches in order.
        fn batches(&self, plan: &ShardPlan) -> Vec<Vec<u32>> {
            let first = self.num_batches()[0];
            let batch = |number: &u32| {
                let number = *number as usize;
                let (bucket, number) =
                    if number < first { (0, number) } else { (1, number - first) };
                let mut batches = plan.members[bucket].chunks(BATCH_LENS[bucket]);
                batches.nth(number).unwrap().to_vec()
            };
            plan.batches.iter().map(batch).collect()
        }
    }

    #[test]
    fn every_shard_is_read_front_to_back_and_every_utterance_comes_once() {
        for seed in 0..60 {
            let corpus = Corpus::random(seed);
            let order = corpus.order();
            for epoch in 0..3 {
                let plan = corpus.plan(&order, epoch);
                let mut last: BTreeMap<usize, u64> = BTreeMap::new();
                let mut turns: Vec<usize> = Vec::new();
                for utterance in &plan.reading {
                    let Some((shard, span)) = corpus.members[*utterance as usize] else { continue };
                    let before = last.insert(shard, span.start);
                    assert!(before.is_none_or(|before| before <= span.start), "seed {seed}");
                    if turns.last() != Some(&shard) {
                        turns.push(shard);
                    }
                }
                // No more shards are open than there are lanes.
                for (at, shard) in turns.iter().enumerate() {
                    let Some(next) = turns[at + 1..].iter().position(|other| other == shard) else {
                        continue;
                    };
                    let between: HashSet<&usize> = turns[at + 1..][..next].iter().collect();
                    assert!(between.len() < LANES, "{}", between.len());
                }
                let all: Vec<u32> = (0..corpus.num_samples.len() as u32).collect();
                let mut read = plan.reading.clone();
                read.sort_unstable();
                assert_eq!(read, all);
                let batches = corpus.batches(&plan);
                let mut seen: Vec<u32> = batches.concat();
                seen.sort_unstable();
                assert_eq!(seen, all);
                assert_eq!(plan.batches.len(), corpus.num_batches().iter().sum::<usize>());
            }
        }
    }

    #[test]
    fn what_waits_for_its_batch_is_a_window_and_the_queues() {
        for seed in (1..61).step_by(3) {
            let corpus = Corpus::random(seed);
            let order = corpus.order();
            let plan = corpus.plan(&order, 1);
            let bytes = |utterance: &u32| {
                corpus.members[*utterance as usize].map_or(0, |(_, span)| span.len)
            };
            let mut reading = plan.reading.iter();
            let (mut kept, mut kept_bytes, mut most) = (HashSet::new(), 0, 0);
            for batch in corpus.batches(&plan) {
                while !batch.iter().all(|utterance| kept.contains(utterance)) {
                    let next = reading.next().unwrap();
                    kept.insert(*next);
                    kept_bytes += bytes(next);
                    most = most.max(kept_bytes);
                }
                kept_bytes -= batch.iter().map(bytes).sum::<u64>();
                batch.iter().for_each(|utterance| assert!(kept.remove(utterance)));
            }
            // Parts of a recording count twice here; each queue is shorter than what is dealt from it.
            let queues = BATCH_LENS.map(|len| (DEALT * len) as u64 * 4_000).iter().sum::<u64>();
            let bound = corpus.window_bytes + corpus.window_bytes / 4 + queues;
            assert!(most <= bound, "seed {seed}: {most} of {bound}");
        }
    }

    #[test]
    fn epochs_differ_and_are_functions_of_their_number() {
        let corpus = Corpus::random(1);
        let (one, other) = (corpus.order(), corpus.order());
        let later = corpus.plan(&one, 9);
        for epoch in [3, 4, 9] {
            let (a, b) = (corpus.plan(&one, epoch), corpus.plan(&other, epoch));
            assert_eq!((&a.reading, &a.batches), (&b.reading, &b.batches));
            assert_eq!(a.members, b.members);
        }
        let a = corpus.plan(&one, 3);
        assert!(a.reading != later.reading && corpus.batches(&a) != corpus.batches(&later));
        assert!(Arc::ptr_eq(&a, &corpus.plan(&one, 3)), "made once");
    }

    #[test]
    fn neighbours_in_a_shard_are_seldom_mates() {
        let members: Vec<_> = (0..4_000_u64)
            .map(|i| Some(((i / 200) as usize, Span { start: (i % 200) * 2_000, len: 1_000 })))
            .collect();
        let names = (0..20).map(|shard| PathBuf::from(format!("{shard}.tar"))).collect();
        let num_samples = vec![100; 4_000];
        let corpus = Corpus { num_samples, members, names, window_bytes: 400_000 };
        let plan = corpus.plan(&corpus.order(), 0);
        let mates: Vec<(u32, u32)> = corpus
            .batches(&plan)
            .iter()
            .flat_map(|b| b.windows(2).map(|w| (w[0], w[1])).collect::<Vec<_>>())
            .collect();
        let beside = mates.iter().filter(|(a, b)| a.abs_diff(*b) == 1).count();
        assert!(beside * 50 < mates.len(), "{beside} of {}", mates.len());
        let one_shard = mates.iter().filter(|(a, b)| a / 200 == b / 200).count();
        assert!(one_shard * 4 < mates.len(), "{one_shard} of {}", mates.len());
    }

    #[test]
    fn without_tar_files_there_is_no_order() {
        assert!(ShardOrder::new(&[1, 2], 1_000, |_| None).is_none());
    }
}
