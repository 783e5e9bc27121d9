//! The feature extractor, on one thread unless others are asked for, for scripts/bench_features.py:
//! JSON lines on stdout.
//!
//!     cargo bench --bench features -- [threads=1,4,16] [repeats [utterances [seconds [preset ...]]]]
//!
//! Checks a fresh plan against another before it times: what is timed is finite, deterministic and
//! has the number of frames that it should. The tests hold the values to the toolkits' own.

use std::time::Instant;

use rayon::prelude::*;

use asr::features::{LogMel, Preset};

/// Speech-like: a few harmonics that come and go, and noise.
fn utterance(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed;
    (0..len)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = state as f32 / u32::MAX as f32 - 0.5;
            let t = i as f32 / 16_000.0;
            let voice: f32 = (1..8).map(|k| (t * 800.0 * k as f32).sin() / k as f32).sum();
            0.2 * voice * (t * 12.0).sin().powi(2) + 0.02 * noise
        })
        .collect()
}

/// Seconds of each run over all utterances, which threads share.
fn times_s(plan: &LogMel, utterances: &[Vec<f32>], threads: usize, repeats: usize) -> Vec<f64> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
    let run = || {
        let start = Instant::now();
        if threads == 1 {
            let mut scratch = plan.scratch();
            for samples in utterances {
                std::hint::black_box(plan.compute(&mut scratch, std::hint::black_box(samples)));
            }
        } else {
            utterances.par_iter().with_max_len(1).for_each_init(
                || plan.scratch(),
                |scratch, samples| {
                    std::hint::black_box(plan.compute(scratch, std::hint::black_box(samples)));
                },
            );
        }
        start.elapsed().as_secs_f64()
    };
    let mut times_s: Vec<f64> = pool.install(|| (0..repeats).map(|_| run()).collect());
    times_s.sort_by(f64::total_cmp);
    times_s
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let threads = given.iter().find_map(|word| word.strip_prefix("threads=")).unwrap_or("1");
    let threads: Vec<usize> =
        threads.split(',').map(|word| word.parse().expect("a whole number")).collect();
    let words: Vec<&String> = given.iter().filter(|word| !word.contains('=')).collect();
    let number = |index: usize, default: usize| {
        words.get(index).map_or(default, |word| word.parse().expect("a whole number"))
    };
    let (repeats, count, seconds) = (number(0, 20), number(1, 8), number(2, 15));
    let chosen = |preset: &Preset| {
        words.len() <= 3 || words[3..].iter().any(|word| **word == preset.to_string())
    };
    let utterances: Vec<Vec<f32>> =
        (0..count).map(|seed| utterance(seed as u32, 16_000 * seconds)).collect();
    for preset in Preset::ALL.into_iter().filter(chosen) {
        let config = preset.settings(16_000);
        let plan = LogMel::new(&config).expect("presets have a meaning");
        let mut scratch = plan.scratch();
        for samples in &utterances {
            let features = plan.compute(&mut scratch, samples);
            let again = LogMel::new(&config).expect("presets have a meaning");
            assert_eq!(features, again.compute(&mut again.scratch(), samples));
            assert_eq!(features.num_frames, config.num_frames(samples.len()));
            assert!(features.data.iter().all(|x| x.is_finite()));
        }
        for &threads in &threads {
            let times_s = times_s(&plan, &utterances, threads, repeats);
            let audio_s = (count * seconds) as f64;
            println!(
                "{{\"preset\":\"{preset}\",\"num_mels\":{},\"threads\":{threads},\"audio_s\":{audio_s},\"median_s\":{:.6},\"best_s\":{:.6},\
                 \"audio_s_per_s\":{:.0},\"best_audio_s_per_s\":{:.0}}}",
                config.num_mels,
                times_s[repeats / 2],
                times_s[0],
                audio_s / times_s[repeats / 2],
                audio_s / times_s[0]
            );
        }
    }
}
