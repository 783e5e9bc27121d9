//! The fast way and the definition against the toolkits' own output, see
//! scripts/make_feature_goldens.py for how that was made.

use serde::Deserialize;

use super::{LogMel, LogMelConfig, Normalize, definition};

/// The largest distance allowed, in the units of the toolkit.
const TOLERANCE: f64 = 1e-4;

#[derive(Deserialize)]
struct Signals {
    signals: Vec<Signal>,
}

#[derive(Deserialize)]
struct Signal {
    name: String,
    scale: f64,
    samples: Vec<i32>,
}

/// One configuration of one toolkit.
#[derive(Deserialize)]
struct Goldens {
    toolkit: String,
    settings: String,
    cases: Vec<Golden>,
}

/// `log_mel` is the toolkit's own code run in f64, `toolkit` its ordinary output.
#[derive(Deserialize)]
struct Golden {
    name: String,
    refused: Option<String>,
    #[serde(default)]
    num_frames: usize,
    #[serde(default)]
    frames: Vec<usize>,
    log_mel: Option<Vec<Vec<f64>>>,
    toolkit: Option<Vec<Vec<f64>>>,
    normalized: Option<Vec<Vec<f64>>>,
    f32_error: Option<f64>,
}

/// What is compared over one set of goldens.
#[derive(Default)]
struct Compared {
    cases: usize,
    toolkits: usize,
    normalized: usize,
    refused: usize,
}

fn largest_distance(got: &[Vec<f64>], frames: &[usize], want: &[Vec<f64>]) -> f64 {
    assert_eq!(frames.len(), want.len());
    let mut worst = 0.0_f64;
    for (t, row) in frames.iter().zip(want) {
        assert_eq!(row.len(), got[*t].len());
        worst = row.iter().zip(&got[*t]).map(|(a, b)| (a - b).abs()).fold(worst, f64::max);
    }
    worst
}

fn fast(config: &LogMelConfig, samples: &[f32]) -> Vec<Vec<f64>> {
    let plan = LogMel::new(config).unwrap();
    let features = plan.compute(&mut plan.scratch(), samples);
    assert_eq!(features.data.len(), features.num_frames * features.num_mels);
    let rows = features.data.chunks(features.num_mels);
    rows.map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect()
}

fn compare(signals: &str, goldens: &str) -> Compared {
    let signals: Signals = serde_json::from_str(signals).unwrap();
    let goldens: Goldens = serde_json::from_str(goldens).unwrap();
    let saved: LogMelConfig = toml::from_str(&goldens.settings).unwrap();
    let raw = LogMelConfig { normalize: Normalize::None, ..saved.clone() };
    let mut compared = Compared::default();
    for case in &goldens.cases {
        let place = format!("{} ({}), {}", saved.preset, goldens.toolkit, case.name);
        let signal = signals.signals.iter().find(|signal| signal.name == case.name).unwrap();
        let samples: Vec<f32> =
            signal.samples.iter().map(|x| (f64::from(*x) * signal.scale) as f32).collect();
        let (fast_way, slow_way) = (fast(&raw, &samples), definition::features(&raw, &samples));
        if let Some(answer) = &case.refused {
            println!("{place}: the toolkit refuses it, here {} frames: {answer}", fast_way.len());
            compared.refused += 1;
            continue;
        }
        compared.cases += 1;
        assert_eq!(fast_way.len(), case.num_frames, "{place}: frames");
        assert_eq!(slow_way.len(), case.num_frames, "{place}: frames of the definition");
        let error = case.f32_error.unwrap_or(0.0);
        if let Some(want) = &case.log_mel {
            let distance = largest_distance(&fast_way, &case.frames, want);
            println!("{place}: {distance:.1e}; the toolkit in f32 is off by {error:.1e}");
            assert!(distance < TOLERANCE, "{place}: {distance:.1e}");
            let distance = largest_distance(&slow_way, &case.frames, want);
            assert!(distance < TOLERANCE, "{place}: the definition is off by {distance:.1e}");
        }
        if let Some(want) = &case.toolkit {
            // How far the toolkit's float32 is from its own f64 counts too; it is rounded to two digits.
            let distance = largest_distance(&fast_way, &case.frames, want);
            println!("{place}: {distance:.1e} from the toolkit in f32");
            assert!(distance < TOLERANCE + 1.06 * error, "{place}: {distance:.1e}");
            compared.toolkits += 1;
        }
        if let Some(want) = &case.normalized {
            let distance = largest_distance(&fast(&saved, &samples), &case.frames, want);
            assert!(distance < TOLERANCE, "{place}: normalised, {distance:.1e}");
            compared.normalized += 1;
        }
    }
    compared
}

/// Goldens of a name.
macro_rules! golden {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/features/", $name, ".json"))
    };
}

const SIGNALS: &str = golden!("signals");

#[test]
fn nemos_goldens_are_met_raw_and_normalised() {
    let compared = compare(SIGNALS, golden!("nemo"));
    assert!(compared.cases >= 28 && compared.normalized >= 4);
    assert!(compare(SIGNALS, golden!("nemo_128")).cases >= 4);
}

#[test]
fn kaldis_goldens_are_met_with_snipped_and_with_mirrored_edges() {
    for goldens in [golden!("kaldi"), golden!("kaldi_80_rounded")] {
        let compared = compare(SIGNALS, goldens);
        assert!(compared.cases >= 28 && compared.refused == 0);
    }
    assert!(compare(SIGNALS, golden!("kaldi_hamming_magnitude")).cases >= 4);
}

#[test]
fn lhotses_and_wenets_goldens_are_met() {
    assert!(compare(SIGNALS, golden!("lhotse")).cases >= 20);
    assert!(compare(SIGNALS, golden!("wenet")).cases >= 15);
}

#[test]
fn whispers_goldens_are_met() {
    assert!(compare(SIGNALS, golden!("whisper")).cases >= 18);
    assert!(compare(SIGNALS, golden!("whisper_128")).cases >= 4);
}

#[test]
fn torchaudios_goldens_are_met() {
    assert!(compare(SIGNALS, golden!("torchaudio")).cases >= 18);
    assert!(compare(SIGNALS, golden!("torchaudio_slaney")).cases >= 4);
}

#[test]
fn espnets_and_speechbrains_goldens_are_met() {
    assert!(compare(SIGNALS, golden!("espnet")).cases >= 16);
    assert!(compare(SIGNALS, golden!("espnet_400_160")).cases >= 4);
    assert!(compare(SIGNALS, golden!("speechbrain")).cases >= 26);
    assert!(compare(SIGNALS, golden!("speechbrain_80")).cases >= 4);
}

#[test]
#[ignore = "needs ASR_GOLDENS, a directory that make_feature_goldens.py --audio ... --out wrote"]
fn goldens_of_other_recordings_are_met() {
    let directory = std::env::var("ASR_GOLDENS").expect("ASR_GOLDENS is set");
    let signals = std::fs::read_to_string(format!("{directory}/signals.json")).unwrap();
    let mut cases = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("signals.json") {
            cases += compare(&signals, &std::fs::read_to_string(path).unwrap()).cases;
        }
    }
    assert!(cases > 0);
}
