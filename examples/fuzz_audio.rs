//! Fuzzes the audio readers: `cargo run --release --example fuzz_audio -- SECONDS [FIRST_CASE] [FOLDER]`.
//!
//! Files of every container (made here, and those in FOLDER) are damaged and read, with the allocator
//! counting. Reported, with the bytes kept in the system's folder for temporary files: panics outside the
//! guard, reads of more than a second, and memory of more than ten times the file and the samples it gave.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use asr::audio::{self, AudioError, Channel, ReadOptions, Resample};
use rand::Rng;

#[allow(dead_code)]
#[path = "../src/audio/forge.rs"]
mod forge;
#[path = "../src/audio/mutate.rs"]
mod mutate;

/// Memory that any read may take: buffers and the tables of decoders.
const SPARE_BYTES: usize = 16 << 20;

/// Counts what is allocated, and its peak.
struct Counting;

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(len: usize) {
    let now = CURRENT.fetch_add(len, Ordering::Relaxed) + len;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        CURRENT.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        grow(len);
        CURRENT.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Where panics happened, and how often.
static PANICS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn corpus(folder: Option<&str>) -> Vec<(String, Vec<u8>)> {
    let samples: Vec<i16> = (0..2_000).map(|i: i32| (i * 7_919 % 20_011 - 10_000) as i16).collect();
    let mut files = Vec::new();
    for (channels, rate_hz) in [(1, 16_000), (2, 8_000)] {
        let take = forge::Take { samples: &samples, channels, rate_hz };
        files.extend(forge::every_kind(take).into_iter().map(|(name, bytes)| (name.into(), bytes)));
    }
    for folder in [Some("tests/fixtures/audio"), folder].into_iter().flatten() {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
            let bytes = std::fs::read(&path).expect("the file can be read");
            if !bytes.is_empty() && bytes.len() < 200_000 {
                files.push((path.display().to_string(), bytes));
            }
        }
    }
    files.sort();
    files
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds = args.first().map_or(10, |text| text.parse().expect("SECONDS is a number"));
    let first = args.get(1).map_or(0, |text| text.parse().expect("FIRST_CASE is a number"));
    let files = corpus(args.get(2).map(String::as_str));
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, ToString::to_string);
        *PANICS.lock().expect("no panic while counting panics").entry(place).or_default() += 1;
    }));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut number: u64 = first;
    let (mut num_read, mut num_refused, mut num_guarded, mut num_findings) = (0_u64, 0_u64, 0, 0);
    let (mut slowest, mut largest) = (Duration::ZERO, 0.0_f64);
    while Instant::now() < end {
        let (name, bytes, mut random) = mutate::case(number, &files);
        let choice = |random: &mut dyn rand::RngCore| random.next_u32() % 3;
        let options = ReadOptions {
            channel: match choice(&mut random) {
                0 => Channel::Mix,
                1 => Channel::Index(0),
                _ => Channel::MonoOnly,
            },
            resample: Resample::Error,
            sample_rate_hz: [16_000, 8_000, 48_000][choice(&mut random) as usize],
        };
        let offset_s = random.random_bool(0.3).then(|| random.random_range(0.0..11.0));
        let duration_s = random.random_bool(0.2).then(|| random.random_range(0.0..5.0));
        let before = CURRENT.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| {
            audio::read_bytes(Path::new(name), &bytes, offset_s, duration_s, &options)
        }));
        let took = started.elapsed();
        let peak = PEAK.load(Ordering::Relaxed) - before;
        let mut found = Vec::new();
        let mut num_samples = 0;
        match &result {
            Ok(Ok(audio)) => {
                num_read += 1;
                num_samples = audio.samples.len();
            }
            Ok(Err(error)) => {
                num_refused += 1;
                if matches!(error, AudioError::Decoder { .. }) {
                    num_guarded += 1;
                }
            }
            Err(_) => found.push("a panic".to_owned()),
        }
        let allowed = 10 * (bytes.len() + 4 * num_samples) + SPARE_BYTES;
        largest = largest.max(peak as f64 / allowed as f64);
        slowest = slowest.max(took);
        if peak > allowed {
            found.push(format!(
                "{peak} bytes for a file of {} and {num_samples} samples",
                bytes.len()
            ));
        }
        if took > Duration::from_secs(1) {
            found.push(format!("{took:?}"));
        }
        if !found.is_empty() {
            num_findings += 1;
            let path = std::env::temp_dir().join(format!("fuzz-audio-{number}"));
            let outcome = result.map_or_else(
                |_| String::new(),
                |read| match read {
                    Ok(_) => "read".into(),
                    Err(error) => error.to_string(),
                },
            );
            println!("case {number} of {name}: {}: {outcome}", found.join(", "));
            std::fs::write(&path, &bytes).expect("the folder for temporary files is writable");
        }
        number += 1;
    }
    println!(
        "{} cases from {} files: {num_read} read, {num_refused} refused, {num_guarded} of them by the \
         guard; slowest {slowest:?}, at most {:.0} % of the allowed memory; {num_findings} findings",
        number - first,
        files.len(),
        100.0 * largest
    );
    for (place, times) in &*PANICS.lock().expect("no panic while counting panics") {
        println!("{times:6} panics at {place}");
    }
    if num_findings > 0 {
        std::process::exit(1);
    }
}
