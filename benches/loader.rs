//! From recordings to batches: what each stage costs on one thread, what the loader makes of it on all,
//! and what the sampler holds for millions of utterances.
//!
//!     cargo bench --bench loader -- MANIFEST [noise=MANIFEST] [rir=MANIFEST] [workers=N]
//!     cargo bench --bench loader -- MANIFEST epoch tar_buffer_mb=512
//!     cargo bench --bench loader -- sampler=5000000
//!
//! Batches made by one worker and by all are compared before anything is timed. With `epoch` nothing is
//! timed but one epoch from a disk whose cache was emptied (as root, on Linux): what reading tar files in
//! sequence is worth.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use asr::audio::speed_perturb;
use asr::augment::{
    AugmentConfig, Augmenter, Draw, GainConfig, NoiseConfig, RirConfig, SpecAugmentConfig,
};
use asr::data::{
    Batch, Cursor, DataConfig, Dataset, Padding, Sampler, TrainLoader, manifest, survey,
};
use asr::features::{Features, LogMelConfig};
use asr::tokens::Tokens;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Stages are timed on this much audio.
const STAGE_S: f64 = 900.0;

fn main() {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let value = |key: &str| args.iter().find_map(|arg| arg.strip_prefix(key));
    if let Some(count) = value("sampler=") {
        return bench_sampler(count.parse().expect("sampler= takes a number"));
    }
    let Some(path) = args.iter().find(|arg| !arg.contains('=')) else {
        println!("loader: give a manifest of recordings at 16 kHz; nothing to time without one");
        return;
    };
    let workers = value("workers=").map_or(0, |count| count.parse().expect("a number"));
    let one = |key| value(key).map(PathBuf::from).into_iter().collect::<Vec<_>>();
    let augment = AugmentConfig {
        gain: GainConfig { probability: 1.0, ..GainConfig::default() },
        noise: NoiseConfig { manifests: one("noise="), probability: 1.0, ..NoiseConfig::default() },
        rir: RirConfig { manifests: one("rir="), probability: 1.0 },
        ..AugmentConfig::default()
    };
    let speeds = vec![0.9, 1.0, 1.1];
    let mut config = DataConfig { cache_audio_mb: 0, workers, speeds, ..DataConfig::default() };
    if let Some(mb) = value("tar_buffer_mb=") {
        config.tar_buffer_mb = mb.parse().expect("a number");
    }
    let start = Instant::now();
    let utterances = manifest::read(path.as_ref()).expect("a manifest");
    let surveyed = survey(utterances, &config, 16_000, &|| {}).expect("sound recordings");
    let texts: Vec<&str> = surveyed.kept.iter().map(|kept| kept.text()).collect();
    let tokens = Tokens::from_transcripts(texts).expect("transcripts");
    let total_s = surveyed.kept_s();
    println!("survey, all cores: {:.0} audio s/s", total_s / start.elapsed().as_secs_f64());
    let load = |config: &DataConfig| {
        let dataset = Dataset::new(surveyed.clone(), &tokens, &LogMelConfig::default(), config);
        Arc::new(dataset.expect("sound settings"))
    };
    let data = load(&config);
    let masks = SpecAugmentConfig::default();
    let plain = Augmenter::open(&AugmentConfig::default(), &masks, 16_000).expect("no clips");
    let varied = Augmenter::open(&augment, &masks, 16_000).expect("sound clips");

    if args.iter().any(|arg| arg == "epoch") {
        return bench_epoch(&data, &Arc::new(plain));
    }
    stages(&data, &augment, &masks);
    let (plain, varied) = (Arc::new(plain), Arc::new(varied));
    let single = load(&DataConfig { workers: 1, ..config.clone() });
    let alike = batches(&single, &varied).take(3).zip(batches(&data, &varied).take(3));
    for (a, b) in alike {
        assert!(a == b, "the number of workers changes a batch; not timed");
    }
    for (what, data, augmenter) in [
        ("log-mel, speeds and SpecAugment, 1 worker", &single, &plain),
        ("log-mel, speeds and SpecAugment", &data, &plain),
        ("and noise, rooms and gain as given", &data, &varied),
    ] {
        let start = Instant::now();
        let per_epoch = Sampler::train(data, 1, Padding::Bucket).expect("not empty");
        let (mut audio_s, mut padded_s) = (0.0, 0.0);
        for batch in batches(data, augmenter).take(per_epoch.batches_per_epoch()) {
            audio_s += batch.audio_s;
            padded_s += batch.padded_s;
        }
        let speed = audio_s / start.elapsed().as_secs_f64();
        println!(
            "loader, {what}: {speed:.0} audio s/s, {:.1} % padding",
            100.0 * (1.0 - audio_s / padded_s)
        );
    }
}

fn batches(data: &Arc<Dataset>, augmenter: &Arc<Augmenter>) -> impl Iterator<Item = Batch> {
    let sampler = Arc::new(Sampler::train(data, 1, Padding::Bucket).expect("not empty"));
    let loader =
        TrainLoader::new(Arc::clone(data), sampler, Arc::clone(augmenter), Cursor::default());
    loader.expect("threads").map(|batch| batch.expect("readable recordings").1)
}

/// One epoch with nothing in the disk cache.
fn bench_epoch(data: &Arc<Dataset>, augmenter: &Arc<Augmenter>) {
    std::fs::write("/proc/sys/vm/drop_caches", "3").expect("root, on Linux");
    let start = Instant::now();
    let sampler = Arc::new(Sampler::train(data, 1, Padding::Bucket).expect("not empty"));
    let per_epoch = sampler.batches_per_epoch();
    let loader =
        TrainLoader::new(Arc::clone(data), sampler, Arc::clone(augmenter), Cursor::default());
    let mut loader = loader.expect("threads");
    loader.next().expect("endless").expect("readable recordings");
    let first_s = start.elapsed().as_secs_f64();
    let rest = loader.by_ref().take(per_epoch - 1);
    let audio_s: f64 = rest.map(|batch| batch.expect("readable recordings").1.audio_s).sum();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "an epoch of {per_epoch} batches, data.tar_buffer_mb = {}: {seconds:.1} s, {:.0} audio s/s, the first batch after {first_s:.2} s",
        data.config().tar_buffer_mb,
        audio_s / seconds
    );
    match loader.read_counts() {
        Some((counts, most_bytes)) => println!(
            "{} recordings of {} MB read ahead, {} files opened, {} steps back, at most {} MB waiting",
            counts.recordings,
            counts.bytes >> 20,
            counts.opened,
            counts.backward,
            most_bytes >> 20
        ),
        None => println!("each recording by its place"),
    }
}

/// One thread, a table of stages.
fn stages(data: &Dataset, augment: &AugmentConfig, masks: &SpecAugmentConfig) {
    let step = (data.audio_s() / STAGE_S).ceil().max(1.0) as usize;
    let chosen: Vec<usize> = (0..data.items().len()).step_by(step).collect();
    let audio_s: f64 = chosen.iter().map(|index| data.items()[*index].duration_s()).sum();
    println!("{:<28} {:>12} {:>12}", "one thread", "audio s/s", "us an s");
    let row = |what: &str, start: Instant| {
        let elapsed = start.elapsed().as_secs_f64();
        println!("{what:<28} {:>12.0} {:>12.1}", audio_s / elapsed, elapsed / audio_s * 1e6);
    };
    let read = || -> Vec<Vec<f32>> {
        let samples = chosen.iter().map(|index| data.samples(*index, 1.0).expect("readable"));
        samples.map(std::borrow::Cow::into_owned).collect()
    };
    read(); // into the page cache
    let start = Instant::now();
    let waveforms = read();
    row("decode", start);
    for speed in [0.9, 1.1] {
        speed_perturb(&waveforms[0], speed); // designs the filter
        let start = Instant::now();
        for samples in &waveforms {
            black_box(speed_perturb(samples, speed));
        }
        row(&format!("speed {speed}"), start);
    }
    let none = AugmentConfig { gain: GainConfig::default(), ..AugmentConfig::default() };
    for (what, config) in [
        ("room", AugmentConfig { rir: augment.rir.clone(), ..none.clone() }),
        ("noise", AugmentConfig { noise: augment.noise.clone(), ..none.clone() }),
        ("gain", AugmentConfig { gain: augment.gain.clone(), ..none.clone() }),
    ] {
        let augmenter = Augmenter::open(&config, masks, 16_000).expect("sound clips");
        if !augmenter.varies_samples() {
            continue;
        }
        let mut samples = waveforms.clone();
        let start = Instant::now();
        for (index, samples) in samples.iter_mut().enumerate() {
            let rng = |draw: Draw| ChaCha8Rng::seed_from_u64(index as u64 * 8 + draw as u64);
            augmenter.vary(samples, rng).expect("readable clips");
        }
        black_box(samples);
        row(what, start);
    }
    let mut scratch = data.log_mel().scratch();
    let start = Instant::now();
    let mut features: Vec<Features> =
        waveforms.iter().map(|samples| data.log_mel().compute(&mut scratch, samples)).collect();
    row("log-mel", start);
    let start = Instant::now();
    for (index, features) in features.iter_mut().enumerate() {
        masks.apply(
            &mut features.data,
            features.num_mels,
            &mut ChaCha8Rng::seed_from_u64(index as u64),
        );
    }
    row("SpecAugment", start);
    let longest = features.iter().map(|features| features.data.len()).max().unwrap_or(0);
    let start = Instant::now();
    for features in features.chunks(8) {
        let mut batch = vec![0.0; longest * features.len()];
        for (row, features) in batch.chunks_exact_mut(longest).zip(features) {
            row[..features.data.len()].copy_from_slice(&features.data);
        }
        black_box(batch);
    }
    row("copy into a batch", start);
}

/// Lengths as in read speech, and what the sampler of them costs.
fn bench_sampler(count: usize) {
    let lengths: Vec<u32> = (0..count).map(|i| (16_000 + (i * 7_919) % 240_000) as u32).collect();
    let before = resident_bytes();
    let start = Instant::now();
    let (config, features) = (DataConfig::default(), LogMelConfig::default());
    let speeds = vec![0.9, 1.0, 1.1];
    let id = |index: usize| index.to_string();
    let sampler = Sampler::of_lengths(lengths, &config, &features, speeds, 1, Padding::Bucket, id);
    let sampler = sampler.expect("nothing is longer than a batch");
    println!("{count} utterances in buckets after {:.2} s", start.elapsed().as_secs_f64());
    let per_epoch = sampler.batches_per_epoch();
    for (epoch, batch) in [(0, 0), (0, per_epoch - 1), (1_000_000, per_epoch / 2)] {
        let start = Instant::now();
        black_box(sampler.batch(Cursor { epoch, batch }));
        let us = start.elapsed().as_secs_f64() * 1e6;
        println!("batch {batch} of epoch {epoch} after {us:.0} us");
    }
    let after = resident_bytes();
    if let (Some(before), Some(after)) = (before, after) {
        let lengths = 4.0;
        let more = (after as f64 - before as f64) / count as f64;
        println!("{:.1} bytes an utterance, the lengths included", lengths + more);
    }
}

/// Memory that this process holds, where the system tells.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").trim().parse::<usize>().ok()? << 10)
}
