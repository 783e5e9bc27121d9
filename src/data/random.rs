//! Random streams as pure functions of what they are for: nothing depends on how many were drawn
//! before, so an epoch can be entered anywhere and utterances can be prepared in any order.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What a stream is used for; different purposes never share numbers.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Which utterances of a bucket share a batch.
    Shuffle = 1,
    /// In which order batches come.
    Order = 2,
    /// Masks of one utterance.
    Augment = 3,
    /// Speed of one utterance.
    Speed = 4,
    /// The room of one utterance.
    Rir = 5,
    /// The noise of one utterance.
    Noise = 6,
    /// The gain of one utterance.
    Gain = 7,
    /// Dither of one utterance.
    Dither = 8,
    /// The order of tar files and what is shuffled of them.
    Shards = 9,
    /// Masks of the second view of one utterance.
    SecondView = 10,
}

/// The stream of one purpose in one epoch; `index` is a bucket or an utterance.
pub(super) fn stream(seed: u64, epoch: u64, purpose: Purpose, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (bytes, word) in key.chunks_exact_mut(8).zip([seed, epoch, purpose as u64, index]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngCore;

    #[test]
    fn streams_are_fixed_for_ever_and_differ_in_every_argument() {
        let first = |seed, epoch, purpose, index| stream(seed, epoch, purpose, index).next_u64();
        let base = first(1, 2, Purpose::Shuffle, 3);
        assert_eq!(base, first(1, 2, Purpose::Shuffle, 3));
        for other in [
            first(2, 2, Purpose::Shuffle, 3),
            first(1, 3, Purpose::Shuffle, 3),
            first(1, 2, Purpose::Order, 3),
            first(1, 2, Purpose::Shuffle, 4),
        ] {
            assert_ne!(base, other);
        }
    }
}
