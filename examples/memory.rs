//! What millions of utterances take in memory, from their manifest to the loader's batches: makes a
//! manifest of so many lines and the recordings that it names, and does what training does with them.
//!
//!     cargo run --release --example memory -- 5000000 [tar]
//!
//! Every line has its own recording, text and id. The recordings are hard links to a few files, or with
//! `tar` members of a hundred tar files that lie where others lie too: names, folders and entries are as
//! many as of so many recordings, and the disk holds them.
//!
//! A tenth of the lines is measured first, each in a process of its own: what one utterance more takes is
//! the difference, without the buffers and threads that any manifest has. Ends with 1 beyond 200 bytes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;

use asr::augment::{AugmentConfig, Augmenter, SpecAugmentConfig};
use asr::data::{
    Cursor, DataConfig, Dataset, Lengths, Padding, Sampler, TrainLoader, manifest, survey,
};
use asr::features::LogMelConfig;
use asr::tokens::Tokens;

/// What the project promises.
const BOUND: f64 = 200.0;
/// Speakers and folders of LibriSpeech.
const NUM_SPEAKERS: usize = 2_484;
const NUM_FOLDERS: usize = 5_831;
/// File systems allow 65,000 links to a file.
const LINKS_PER_FILE: usize = 50_000;
const NUM_TARS: usize = 100;
const RATE_HZ: u32 = 16_000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let count: usize = args.first().map_or(5_000_000, |count| count.parse().expect("a number"));
    let in_tars = args.iter().any(|arg| arg == "tar");
    if let Some(at) = args.iter().position(|arg| arg == MEASURE) {
        println!("{}", measure(Path::new(&args[at + 1]), count));
        return ExitCode::SUCCESS;
    }
    let (fewer, start) = (count / 10, Instant::now());
    let [few_bytes, bytes] = [fewer, count].map(|count| in_a_process(count, in_tars));
    let each = (bytes - few_bytes) as f64 / (count - fewer) as f64;
    println!("{each:.1} bytes for each utterance more; {:.0} s", start.elapsed().as_secs_f64());
    if each <= BOUND { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How a process is told to measure the manifest named next.
const MEASURE: &str = "--measure";

/// Makes a manifest of `count` lines; returns the most bytes that a process that trains on it held.
fn in_a_process(count: usize, in_tars: bool) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = folder.path().join("m.jsonl");
    let string_bytes = write_corpus(folder.path(), &manifest, count, in_tars).expect("disk space");
    let line_bytes = fs::metadata(&manifest).expect("it was written").len() as usize / count;
    let string_bytes = string_bytes as f64 / count as f64;
    println!("{count} lines of {line_bytes} bytes, {string_bytes:.0} of them names and texts");
    let program = std::env::current_exe().expect("it runs");
    let mut command = Command::new(program);
    command.arg(count.to_string()).arg(MEASURE).arg(&manifest);
    let output = command.stderr(Stdio::inherit()).output();
    let output = String::from_utf8(output.expect("a process").stdout).expect("text");
    let (table, most) = output.trim_end().rsplit_once('\n').expect("a table and a number");
    println!("{table}");
    most.parse().expect("a number")
}

/// What training does; returns the most bytes that were resident.
fn measure(path: &Path, count: usize) -> usize {
    let config = DataConfig { cache_audio_mb: 0, tar_buffer_mb: 64, ..DataConfig::default() };
    let features = LogMelConfig::default();
    let mut last = Instant::now();
    let mut report = |what: &str| {
        let each = |bytes: usize| bytes as f64 / count as f64;
        let (now, most) = (each(resident_bytes()), each(most_resident_bytes()));
        let seconds = last.elapsed().as_secs_f64();
        println!("{what:<34} {now:>6.1} bytes an utterance, at most {most:>6.1}  {seconds:>6.1} s");
        last = Instant::now();
    };
    let utterances = manifest::read(path).expect("a sound manifest");
    report("manifest");
    let surveyed = survey(utterances, &config, RATE_HZ, &|| {}).expect("sound recordings");
    report("survey");
    let lengths = Lengths::of(&surveyed, RATE_HZ);
    report("lengths for the run directory");
    drop(lengths);
    let tokens = Tokens::from_transcripts(surveyed.kept.iter().map(|kept| kept.text()));
    let tokens = tokens.expect("transcripts");
    let data = Dataset::new(surveyed, &tokens, &features, &config).expect("sound settings");
    report("data set");
    let sampler = Sampler::train(&data, 1, Padding::Longest).expect("nothing is too long");
    report("sampler");
    let none = AugmentConfig::default();
    let augmenter = Augmenter::open(&none, &SpecAugmentConfig::default(), RATE_HZ);
    let middle = Cursor { epoch: 1, batch: sampler.batches_per_epoch() / 2 };
    let loader = TrainLoader::new(
        Arc::new(data),
        Arc::new(sampler),
        Arc::new(augmenter.expect("no clips")),
        middle,
    );
    let mut loader = loader.expect("threads");
    loader.next().expect("endless").expect("readable");
    report("first batch, amid an epoch");
    let heard: usize = loader.by_ref().take(50).map(|batch| batch.expect("readable").1.len()).sum();
    report("50 batches more");
    println!("{heard} utterances in those");
    most_resident_bytes()
}

/// Returns the bytes of all names and texts.
fn write_corpus(folder: &Path, manifest: &Path, count: usize, in_tars: bool) -> io::Result<usize> {
    let mut lines = BufWriter::new(File::create(manifest)?);
    let mut string_bytes = 0;
    let (mut samples_s, mut bytes_len) = (0.0, 0);
    if in_tars {
        (samples_s, bytes_len) = write_wav(&folder.join("one.wav"), 0)?;
        // As long as a tar file of so many would be: nothing is read but what a line names.
        let wav = fs::read(folder.join("one.wav"))?;
        for tar in 0..NUM_TARS {
            let mut file = BufWriter::new(File::create(folder.join(format!("audio_{tar}.tar")))?);
            for _ in 0..SLOTS {
                file.write_all(&wav)?;
            }
            file.flush()?;
        }
    } else {
        for number in 0..NUM_FOLDERS.min(count) {
            fs::create_dir(folder.join(number.to_string()))?;
        }
    }
    for i in 0..count {
        let name = format!("{}-{i:07}.flac", i % NUM_SPEAKERS);
        let words = "the quick brown fox jumps over the lazy dog ".chars().cycle();
        let text: String = words.skip(i % 44).take(40 + i % 100).collect();
        string_bytes += name.len() + text.len();
        let speaker = i % NUM_SPEAKERS;
        if in_tars {
            let (tar, slot) = (i * NUM_TARS / count, i % SLOTS);
            let at = slot * bytes_len;
            writeln!(
                lines,
                "{{\"audio_filepath\": \"audio_{tar}.tar\", \"member\": \"{name}\", \"member_offset\": {at}, \"member_bytes\": {bytes_len}, \"duration\": {samples_s}, \"text\": \"{text}\", \"speaker\": \"{speaker}\"}}",
            )?;
        } else {
            let original = folder.join(format!("original-{}.wav", i / LINKS_PER_FILE));
            if i % LINKS_PER_FILE == 0 {
                (samples_s, _) = write_wav(&original, i / LINKS_PER_FILE)?;
            }
            let audio = format!("{}/{name}", i % NUM_FOLDERS);
            fs::hard_link(original, folder.join(&audio))?;
            writeln!(
                lines,
                "{{\"audio_filepath\": \"{audio}\", \"duration\": {samples_s}, \"text\": \"{text}\", \"speaker\": \"{speaker}\"}}",
            )?;
        }
    }
    lines.flush()?;
    Ok(string_bytes)
}

/// Recordings that a tar file really holds.
const SLOTS: usize = 64;

/// A short recording; returns its seconds and bytes.
fn write_wav(path: &Path, number: usize) -> io::Result<(f64, usize)> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: RATE_HZ,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let len = 2_400 + 16 * number;
    let mut writer = hound::WavWriter::create(path, spec).map_err(io::Error::other)?;
    for n in 0..len {
        writer.write_sample((n * 7_919 % 4_001) as i16 - 2_000).map_err(io::Error::other)?;
    }
    writer.finalize().map_err(io::Error::other)?;
    Ok((len as f64 / f64::from(RATE_HZ), fs::metadata(path)?.len() as usize))
}

fn resident_bytes() -> usize {
    status("VmRSS:")
}

fn most_resident_bytes() -> usize {
    status("VmHWM:")
}

/// A line of Linux's account of this process.
fn status(key: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("this needs Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("it is there");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}
