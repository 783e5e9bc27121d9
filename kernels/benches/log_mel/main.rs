//! Checks the device's features against the f64 reference, then times them; one JSON line a
//! measurement. `--bench features` of the root package times the host's on the same audio.
//!
//!     cargo bench -p asr-kernels --features cuda,vulkan --bench log_mel -- [cuda|vulkan|wgpu]
//!         [REPEATS] [frames=1,2,4] [precision=single,double] [shapes=64x15,16x5]
//!
//! `whole_ms`: samples from the host's memory, kernels, wait. `kernels_ms`: a call's share of many
//! queued ones on samples that are there. `samples_up_ms` and `features_up_ms`: a copy and its wait, of the
//! samples, and of the features, which a batch made on the host needs.

#[path = "../../tests/suite/log_mel/conventions.rs"]
#[allow(dead_code)]
mod conventions;

use asr_kernels::log_mel::gpu::{LogMel, Precision};
use asr_kernels::log_mel::{Waveforms, reference};
use conventions::Convention;
use cubecl::bytes::Bytes;
use cubecl::prelude::*;
use std::time::Instant;

/// Calls queued before the device is waited for.
const QUEUED: usize = 20;
const SAMPLE_RATE_HZ: usize = 16_000;
/// The greatest error in log-mel that the host's features may have.
const PROMISE: f64 = 1e-4;

/// Speech-like: a few harmonics that come and go, and noise.
fn utterance(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed;
    (0..len)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = state as f32 / u32::MAX as f32 - 0.5;
            let t = i as f32 / SAMPLE_RATE_HZ as f32;
            let voice: f32 = (1..8).map(|k| (t * 800.0 * k as f32).sin() / k as f32).sum();
            0.2 * voice * (t * 12.0).sin().powi(2) + 0.02 * noise
        })
        .collect()
}

/// Rows of as many seconds; eight different ones, again and again.
fn batch(rows: usize, seconds: usize) -> Vec<f32> {
    let len = seconds * SAMPLE_RATE_HZ;
    let different: Vec<Vec<f32>> = (0..8).map(|seed| utterance(seed, len)).collect();
    (0..rows).flat_map(|row| different[row % 8].iter().copied()).collect()
}

/// Median and first decile in milliseconds.
fn times(repeats: usize, mut run: impl FnMut() -> f64) -> (f64, f64) {
    for _ in 0..repeats.div_ceil(10) {
        run();
    }
    let mut times: Vec<f64> = (0..repeats).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    (times[repeats / 2], times[repeats / 10])
}

fn ms_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

struct Bench {
    client: Client,
    convention: Convention,
    repeats: usize,
}

impl Bench {
    fn sync(&self) {
        cubecl::future::block_on(self.client.sync()).expect("the device is well");
    }

    fn waveforms(&self, rows: usize, seconds: usize) -> Waveforms {
        let len = seconds * SAMPLE_RATE_HZ;
        let frame_lens = vec![self.convention.num_frames(len); rows];
        Waveforms::padded(len, vec![len; rows], frame_lens).expect("a batch fits")
    }

    /// The greatest distance to the reference, before and after the normalisation.
    fn error(&self, precision: Precision) -> (f64, f64) {
        let distance = |convention: &Convention| {
            let (rows, seconds) = (3, 5);
            let samples = batch(rows, seconds);
            let plan = LogMel::new(&self.client, &convention.settings, precision).expect("it fits");
            let handle = self.client.create_from_slice(f32::as_bytes(&samples));
            let out = plan.compute(&handle, &self.waveforms(rows, seconds)).expect("it fits");
            let bytes = self.client.read_one(out).expect("the kernels ran");
            let num_frames = convention.num_frames(seconds * SAMPLE_RATE_HZ);
            let want = samples.chunks(seconds * SAMPLE_RATE_HZ).flat_map(|row| {
                reference::log_mel(&convention.settings, row, num_frames).into_iter().flatten()
            });
            f32::from_bytes(&bytes).iter().zip(want).fold(0.0, |worst: f64, (got, want)| {
                let distance = (f64::from(*got) - want).abs();
                if distance.is_nan() { f64::INFINITY } else { worst.max(distance) }
            })
        };
        (distance(&self.convention.clone().without_normalisation()), distance(&self.convention))
    }

    /// A copy to the device and its wait; the vector is given away, as a loader's is.
    fn upload(&self, values: &[f32]) -> (f64, f64) {
        times(self.repeats, || {
            let bytes = Bytes::from_elems(values.to_vec());
            let start = Instant::now();
            let handle = self.client.create(bytes);
            self.sync();
            drop(handle);
            ms_since(start)
        })
    }

    fn measure(&self, rows: usize, seconds: usize, precision: Precision, frames: Option<usize>) {
        let plan = LogMel::new(&self.client, &self.convention.settings, precision);
        let plan = plan.and_then(|plan| match frames {
            Some(frames) => plan.with_frames_per_cube(frames),
            None => Ok(plan),
        });
        let plan = match plan {
            Ok(plan) => plan,
            Err(err) => return eprintln!("{precision:?} frames={frames:?}: {err}"),
        };
        let samples = batch(rows, seconds);
        let waveforms = self.waveforms(rows, seconds);
        let handle = self.client.create_from_slice(f32::as_bytes(&samples));
        let first = Instant::now();
        plan.compute(&handle, &waveforms).expect("it fits");
        self.sync();
        let first_ms = ms_since(first);
        let (whole_ms, whole_p10_ms) = times(self.repeats, || {
            let bytes = Bytes::from_elems(samples.clone());
            let start = Instant::now();
            let handle = self.client.create(bytes);
            let out = plan.compute(&handle, &waveforms).expect("it fits");
            self.sync();
            drop(out);
            ms_since(start)
        });
        let (kernels_ms, kernels_p10_ms) = times(self.repeats.div_ceil(5), || {
            let start = Instant::now();
            for _ in 0..QUEUED {
                plan.compute(&handle, &waveforms).expect("it fits");
            }
            self.sync();
            ms_since(start) / QUEUED as f64
        });
        let (one_ms, _) = times(self.repeats, || {
            let start = Instant::now();
            plan.compute(&handle, &waveforms).expect("it fits");
            self.sync();
            ms_since(start)
        });
        let (samples_up_ms, _) = self.upload(&samples);
        let num_values = rows * waveforms.num_frames() * self.convention.settings.num_mels();
        let (features_up_ms, _) = self.upload(&vec![0.5; num_values]);
        let audio_s = (rows * seconds) as f64;
        println!(
            "{{\"work\":\"log_mel\",\"precision\":\"{precision:?}\",\"frames_per_cube\":{},\"rows\":{rows},\"seconds\":{seconds},\
             \"whole_ms\":{whole_ms:.3},\"whole_p10_ms\":{whole_p10_ms:.3},\"kernels_ms\":{kernels_ms:.3},\
             \"kernels_p10_ms\":{kernels_p10_ms:.3},\"one_call_ms\":{one_ms:.3},\"samples_up_ms\":{samples_up_ms:.3},\
             \"features_up_ms\":{features_up_ms:.3},\"first_ms\":{first_ms:.1},\"whole_audio_s_per_s\":{:.0},\
             \"kernels_audio_s_per_s\":{:.0}}}",
            plan.frames_per_cube(),
            audio_s / whole_ms * 1e3,
            audio_s / kernels_ms * 1e3,
        );
    }
}

fn list<'a>(args: &'a [String], key: &str, default: &'a str) -> Vec<&'a str> {
    let given = args.iter().find_map(|arg| arg.strip_prefix(key)?.strip_prefix('='));
    given.unwrap_or(default).split(',').collect()
}

fn main() {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let repeats = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(30);
    let is_device = |arg: &&String| ["cuda", "vulkan", "wgpu"].contains(&arg.as_str());
    let device = match args.iter().find(is_device).map_or("wgpu", String::as_str) {
        "cuda" => cubecl::Device::cuda(0),
        "vulkan" => cubecl::Device::vulkan(Default::default()),
        _ => cubecl::Device::wgpu(Default::default()),
    };
    let client = match device {
        Ok(device) => device.client(),
        Err(err) => {
            eprintln!("no such device: {err}");
            std::process::exit(2);
        }
    };
    let bench = Bench { client, convention: conventions::nemo(80), repeats };
    println!(
        "{{\"made_by\":\"cargo bench -p asr-kernels --bench log_mel\",\"runtime\":\"{}\",\"device\":\"{}\"}}",
        bench.client.name(),
        bench.client.properties().identity.name,
    );
    let wanted = list(&args, "precision", "double,single");
    for precision in [Precision::Double, Precision::Single] {
        if !wanted.iter().any(|name| format!("{precision:?}").eq_ignore_ascii_case(name)) {
            continue;
        }
        if !precision.is_supported(&bench.client) {
            eprintln!("{precision:?} is not supported here");
            continue;
        }
        let (raw_error, normalised_error) = bench.error(precision);
        let is_right = raw_error.max(normalised_error) < PROMISE;
        println!(
            "{{\"work\":\"check\",\"precision\":\"{precision:?}\",\"log_mel_error\":{raw_error:.2e},\
             \"normalised_error\":{normalised_error:.2e},\"right\":{is_right}}}"
        );
        for shape in list(&args, "shapes", "64x15,16x5") {
            let (rows, seconds) = shape.split_once('x').expect("ROWSxSECONDS");
            let number = |text: &str| text.parse().expect("a whole number");
            for frames in list(&args, "frames", "") {
                let frames = frames.parse().ok();
                bench.measure(number(rows), number(seconds), precision, frames);
            }
        }
    }
}
