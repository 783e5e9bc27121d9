//! Toolkits' features in f64, committed with their provenance beside the host's own tests
//! (scripts/make_feature_goldens.py), against the reference and, through it, every device.

use super::conventions::{Convention, espnet, kaldi, lhotse, nemo};
use asr_kernels::log_mel::reference::log_mel;
use serde_json::Value;

const SIGNALS: &str = include_str!("../../../../tests/fixtures/features/signals.json");

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn are_met(convention: &Convention, goldens: &str) {
    let signals: Value = serde_json::from_str(SIGNALS).unwrap();
    let goldens: Value = serde_json::from_str(goldens).unwrap();
    assert!(goldens["toolkit"].is_string() && goldens["made_by"].is_string());
    let mut compared = 0;
    for case in goldens["cases"].as_array().unwrap() {
        let Some(want) = case["log_mel"].as_array() else { continue };
        let signal = signals["signals"].as_array().unwrap();
        let signal = signal.iter().find(|signal| signal["name"] == case["name"]).unwrap();
        let scale = signal["scale"].as_f64().unwrap();
        let samples: Vec<f32> =
            numbers(&signal["samples"]).iter().map(|x| (x * scale) as f32).collect();
        let num_frames = case["num_frames"].as_u64().unwrap() as usize;
        let place = format!("{} {}", convention.name, case["name"]);
        assert_eq!(convention.num_frames(samples.len()), num_frames, "{place}");
        let raw = convention.clone().without_normalisation();
        let got = log_mel(&raw.settings, &samples, num_frames);
        let frames = numbers(&case["frames"]);
        for (t, want) in frames.iter().zip(want) {
            for (got, want) in got[*t as usize].iter().zip(numbers(want)) {
                assert!((got - want).abs() < 2e-5, "{place} frame {t}: {got} {want}");
                compared += 1;
            }
        }
        if let Some(want) = case["normalized"].as_array() {
            let got = log_mel(&convention.settings, &samples, num_frames);
            for (t, want) in frames.iter().zip(want) {
                for (got, want) in got[*t as usize].iter().zip(numbers(want)) {
                    assert!((got - want).abs() < 2e-4, "{place} frame {t}: {got} {want}");
                }
            }
        }
    }
    assert!(compared > 300, "{} {compared}", convention.name);
}

macro_rules! golden {
    ($test:ident, $convention:expr, $file:literal) => {
        #[test]
        fn $test() {
            are_met(
                &$convention,
                include_str!(concat!("../../../../tests/fixtures/features/", $file)),
            );
        }
    };
}

golden!(nemos_features_are_met, nemo(80), "nemo.json");
golden!(nemos_128_bands_are_met, nemo(128), "nemo_128.json");
golden!(kaldis_features_are_met, kaldi(23), "kaldi.json");
golden!(wenets_features_are_met, kaldi(80), "wenet.json");
golden!(lhotses_features_are_met, lhotse(), "lhotse.json");
golden!(espnets_features_are_met, espnet(), "espnet.json");
