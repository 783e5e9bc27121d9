//! A short run of the fuzzer that `examples/fuzz_audio.rs` runs for as long as one likes, with memory
//! counted: damaged files of every container give samples or an error, soon.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::Rng;

use super::forge::{self, Take};
use super::laws::CODED;
use super::*;

const NUM_CASES: u64 = 2_500;

#[test]
fn damaged_recordings_give_samples_or_an_error_and_soon() {
    let samples: Vec<i16> = (0..2_000).map(|i: i32| (i * 7_919 % 20_011 - 10_000) as i16).collect();
    let take = Take { samples: &samples, channels: 2, rate_hz: 16_000 };
    let forged = forge::every_kind(take).into_iter();
    let coded = CODED.iter().map(|(name, bytes)| (*name, bytes.to_vec()));
    let files: Vec<(String, Vec<u8>)> =
        forged.chain(coded).map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let (mut num_read, mut num_refused) = (0, 0);
    for number in 0..NUM_CASES {
        let (name, bytes, mut random) = mutate::case(number, &files);
        let options = ReadOptions {
            channel: [Channel::Mix, Channel::Index(0)][random.random_range(0..2)],
            resample: Resample::Error,
            sample_rate_hz: 16_000,
        };
        let offset_s = random.random_bool(0.3).then(|| random.random_range(0.0..11.0));
        let started = Instant::now();
        match read_bytes(Path::new(name), &bytes, offset_s, None, &options) {
            Ok(audio) => {
                num_read += 1;
                assert!(audio.samples.iter().all(|x| x.is_finite()), "case {number} of {name}");
            }
            Err(error) => {
                num_refused += 1;
                assert!(error.to_string().contains(name), "case {number}: {error}");
            }
        }
        let took = started.elapsed();
        assert!(took < Duration::from_secs(5), "case {number} of {name} took {took:?}");
    }
    // Neither harmless nor hopeless damage alone.
    assert!(num_read > NUM_CASES / 20 && num_refused > NUM_CASES / 2, "{num_read} {num_refused}");
}
