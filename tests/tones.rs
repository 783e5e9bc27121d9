//! A language of tones: the words a, b and c are pairs of frequencies, spoken in random order,
//! length and loudness, so that a tiny model learns it in seconds and yet has something to learn.

use std::f64::consts::TAU;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::sandbox::Sandbox;

pub const RATE_HZ: u32 = 8_000;

/// The two frequencies of each word, in Hz.
const WORDS: [(&str, f64, f64); 3] =
    [("a", 500.0, 1_200.0), ("b", 900.0, 2_100.0), ("c", 1_500.0, 2_900.0)];

/// A small model on 8 kHz audio; it learns the tones in some hundred steps.
pub const CONFIG: &str = r#"[train]
epochs = 20
log_every = 1
validate_every = 10

[data]
train = ["train.jsonl"]
dev = ["dev.jsonl"]
batch_s = 6.0
num_buckets = 2
workers = 1

[features]
sample_rate_hz = 8000
n_fft = 256
num_mels = 20

[spec_augment]
freq_masks = 0
time_masks = 0

[model]
hidden_size = 16
num_layers = 1
num_heads = 2
conv_kernel = 5
subsampling_factor = 4
subsampling_channels = 4
dropout = 0.0
attention_dropout = 0.0

[optim]
learning_rate = 1e-2

[schedule]
warmup_steps = 10
"#;

/// 16-bit PCM; `samples` interleaves `channels`.
pub fn wav(rate_hz: u32, channels: u16, samples: &[i16]) -> Vec<u8> {
    let data_len = 2 * samples.len() as u32;
    let frame_len = 2 * channels;
    let mut bytes = Vec::with_capacity(44 + data_len as usize);
    bytes.extend(b"RIFF");
    bytes.extend((36 + data_len).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16_u32.to_le_bytes());
    bytes.extend(1_u16.to_le_bytes()); // PCM
    bytes.extend(channels.to_le_bytes());
    bytes.extend(rate_hz.to_le_bytes());
    bytes.extend((rate_hz * u32::from(frame_len)).to_le_bytes());
    bytes.extend(frame_len.to_le_bytes());
    bytes.extend(16_u16.to_le_bytes()); // bits
    bytes.extend(b"data");
    bytes.extend(data_len.to_le_bytes());
    bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    bytes
}

/// `text` (words of the language) as it sounds, with pauses and a little noise.
pub fn speak(text: &str, rng: &mut ChaCha8Rng) -> Vec<i16> {
    let samples_in = |ms: f64| (ms * f64::from(RATE_HZ) / 1e3) as usize;
    let mut samples = vec![0.0; samples_in(rng.random_range(60.0..120.0))];
    for word in text.split_whitespace() {
        let (_, low_hz, high_hz) = WORDS.into_iter().find(|(name, ..)| *name == word).unwrap();
        let (len, loudness) =
            (samples_in(rng.random_range(140.0..220.0)), rng.random_range(0.1..0.3));
        samples.extend((0..len).map(|n| {
            let time_s = n as f64 / f64::from(RATE_HZ);
            let fade = (TAU * n as f64 / len as f64 / 2.0).sin();
            loudness * fade * ((TAU * low_hz * time_s).sin() + (TAU * high_hz * time_s).sin())
        }));
        samples.resize(samples.len() + samples_in(rng.random_range(60.0..120.0)), 0.0);
    }
    samples
        .into_iter()
        .map(|sample: f64| (32_767.0 * (sample + rng.random_range(-0.003..0.003))) as i16)
        .collect()
}

/// One line of a manifest.
pub fn line(audio: &str, duration_s: f64, text: &str, id: &str) -> String {
    format!(
        "{}\n",
        serde_json::json!({"audio_filepath": audio, "duration": duration_s, "text": text, "id": id})
    )
}

impl Sandbox {
    /// A recording of `text` at `audio/ID.wav`, and its line of a manifest.
    pub fn utterance(&self, id: &str, text: &str, rng: &mut ChaCha8Rng) -> String {
        let samples = speak(text, rng);
        let audio = format!("audio/{id}.wav");
        self.write(&audio, wav(RATE_HZ, 1, &samples));
        line(&audio, samples.len() as f64 / f64::from(RATE_HZ), text, id)
    }

    /// `NAME.jsonl` with `count` utterances of one to four words.
    pub fn corpus(&self, name: &str, count: usize, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut manifest = String::new();
        for number in 0..count {
            let words: Vec<&str> =
                (0..rng.random_range(1..=4)).map(|_| WORDS[rng.random_range(0..3)].0).collect();
            manifest += &self.utterance(&format!("{name}-{number:03}"), &words.join(" "), &mut rng);
        }
        self.write(&format!("{name}.jsonl"), manifest);
    }

    /// A config and a corpus that train in about a second.
    pub fn with_tones() -> Self {
        let sandbox = Self::new();
        sandbox.write(
            "run.toml",
            CONFIG
                .replace("epochs = 20", "epochs = 2")
                .replace("warmup_steps = 10", "warmup_steps = 2"),
        );
        sandbox.corpus("train", 12, 1);
        sandbox.corpus("dev", 4, 2);
        sandbox
    }

    /// A noise and a room with their manifests, and the sections of a config that use them.
    pub fn noises_and_rooms(&self) -> String {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let noise: Vec<i16> = (0..6_000).map(|_| rng.random_range(-3_000..3_000)).collect();
        let mut room = vec![0; 900];
        (room[4], room[310], room[820]) = (30_000, 9_000, -4_000);
        for (name, samples) in [("noise", noise), ("room", room)] {
            self.write(&format!("audio/{name}.wav"), wav(RATE_HZ, 1, &samples));
            let line = format!("{{\"audio_filepath\": \"audio/{name}.wav\"}}\n");
            self.write(&format!("{name}.jsonl"), line);
        }
        let sections = [
            "gain]\nprobability = 0.5",
            "noise]\nmanifests = [\"noise.jsonl\"]",
            "rir]\nmanifests = [\"room.jsonl\"]",
        ];
        sections.map(|section| format!("\n[augment.{section}\n")).concat()
    }

    /// Adds lines to a manifest of [`Sandbox::with_tones`].
    pub fn append(&self, manifest: &str, lines: &str) {
        self.write(manifest, self.read(manifest) + lines);
    }

    /// A sandbox with a copy of a trained run at `run`, its manifests and config. The run is
    /// trained once for all tests.
    pub fn with_trained_run() -> Self {
        let trained = trained();
        let sandbox = Self::new();
        copy_directory(trained.sandbox.root(), sandbox.root());
        sandbox
    }
}

/// The run that tests copy, and what training it printed.
pub struct Trained {
    pub sandbox: Sandbox,
    pub stdout: String,
    pub stderr: String,
}

/// Trains on 60 utterances and measures on 20 others.
pub fn trained() -> &'static Trained {
    static TRAINED: OnceLock<Trained> = OnceLock::new();
    TRAINED.get_or_init(|| {
        let sandbox = Sandbox::kept("trained-tones");
        sandbox.write("run.toml", CONFIG.replace("dev = [", "test = [\"test.jsonl\"]\ndev = ["));
        sandbox.corpus("train", 60, 1);
        sandbox.corpus("dev", 12, 2);
        sandbox.corpus("test", 20, 3);
        let outcome = sandbox.train(&["run.toml", "--out", "run"]).succeeds();
        Trained { sandbox, stdout: outcome.stdout, stderr: outcome.stderr }
    })
}

/// Copies files, folders, and links as links.
fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let source = entry.unwrap().path();
        let target = to.join(source.file_name().unwrap());
        if source.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source).unwrap(), target).unwrap();
        } else if source.is_dir() {
            copy_directory(&source, &target);
        } else {
            fs::copy(&source, target).unwrap();
        }
    }
}
