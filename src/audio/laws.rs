//! Laws that hold for every container: a segment is a cut of the whole, a cut copy is never a shorter
//! recording, the name of a file means nothing, and the encodings agree with each other.

use std::path::{Path, PathBuf};

use super::forge::{self, Take};
use super::tests::{MONO_16K, tone};
use super::*;

/// Files of coders that are not made here: see the README beside them.
pub(super) const CODED: &[(&str, &[u8])] = &[
    ("digits.mp3", include_bytes!("../../tests/fixtures/audio/digits.mp3")),
    ("digits.m4a", include_bytes!("../../tests/fixtures/audio/digits.m4a")),
    ("digits.aac", include_bytes!("../../tests/fixtures/audio/digits.aac")),
    ("digits.ogg", include_bytes!("../../tests/fixtures/audio/digits.ogg")),
    #[cfg(feature = "opus")]
    ("digits.opus", include_bytes!("../../tests/fixtures/audio/digits.opus")),
    #[cfg(feature = "opus")]
    ("digits.webm", include_bytes!("../../tests/fixtures/audio/digits.webm")),
];

/// The utterances that the coded files were made from, and how many of the three each has.
const DIGITS: [&[u8]; 3] = [
    include_bytes!("../../data/digits/test/test-rms-040.flac"),
    include_bytes!("../../data/digits/test/test-rms-098.flac"),
    include_bytes!("../../data/digits/test/test-rms-047.flac"),
];

fn whole(name: &str, bytes: &[u8]) -> Result<Vec<f32>, AudioError> {
    read_bytes(Path::new(name), bytes, None, None, &MONO_16K).map(|audio| audio.samples)
}

fn part(name: &str, bytes: &[u8], offset_s: f64, duration_s: Option<f64>) -> Vec<f32> {
    let part = read_bytes(Path::new(name), bytes, Some(offset_s), duration_s, &MONO_16K);
    part.unwrap_or_else(|error| panic!("{error}")).samples
}

fn speech() -> Vec<f32> {
    DIGITS.iter().flat_map(|flac| whole("digits.flac", flac).unwrap()).collect()
}

fn samples(len: usize) -> Vec<i16> {
    tone(440.0, 16_000, len).iter().map(|x| (x * 32_767.0) as i16).collect()
}

fn every_kind(samples: &[i16]) -> Vec<(&'static str, Vec<u8>)> {
    let take = Take { samples, channels: 1, rate_hz: 16_000 };
    let coded = CODED.iter().map(|(name, bytes)| (*name, bytes.to_vec()));
    forge::every_kind(take).into_iter().chain(coded).collect()
}

#[test]
fn every_linear_encoding_gives_the_samples_it_was_made_from() {
    let samples = samples(3_001);
    for channels in [1, 3] {
        let samples = &samples[..3_000];
        let take = Take { samples, channels, rate_hz: 16_000 };
        for (name, bytes) in forge::every_kind(take) {
            let (tolerance, coded) = match name {
                "pcm8.wav" => (1.0 / 128.0, false),
                "mulaw.wav" | "alaw.wav" | "ima.wav" | "ms.wav" | "gsm.wav" => (0.0, true),
                _ => (0.0, false),
            };
            if coded {
                continue;
            }
            for channel in 0..channels {
                let channel = Channel::Index(usize::from(channel));
                let options = ReadOptions { channel, ..MONO_16K };
                let got = read_bytes(Path::new(name), &bytes, None, None, &options).unwrap();
                let Channel::Index(index) = channel else { unreachable!() };
                let want = samples.iter().skip(index).step_by(usize::from(channels));
                assert_eq!(got.samples.len(), want.len(), "{name}");
                for (got, want) in got.samples.iter().zip(want) {
                    let error = (got - f32::from(*want) / 32_768.0).abs();
                    assert!(error <= tolerance, "{name}: {got} for {want}");
                }
            }
        }
    }
}

#[test]
fn every_coded_file_has_the_length_and_the_sound_of_its_source() {
    let speech = speech();
    for &(name, bytes) in CODED {
        let got = whole(name, bytes).unwrap();
        let (start, want_len, tolerance) = match name {
            // No word of what the encoder put in front (1024 samples) or behind.
            "digits.aac" => (1_024, 57_156, 1_024),
            // No word of the padding.
            "digits.webm" => (0, 57_156, 320),
            // Padding in whole blocks, less the delay of the decoder.
            "digits.mp3" => (0, 163_019, 40),
            _ => (0, 163_019, 0),
        };
        let excess = got.len() - start - want_len;
        assert!(excess <= tolerance, "{name}: {excess} samples too many");
        // The error is smallest when nothing is shifted, and small.
        let want = &speech[2_000..want_len - 2_000];
        let error = |shift: isize| -> f64 {
            let first = (2_000 + start as isize + shift) as usize;
            let pairs = want.iter().zip(&got[first..]);
            pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>()
        };
        let energy: f64 = want.iter().map(|x| f64::from(*x).powi(2)).sum();
        let best = (-40..=40).min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap();
        assert_eq!(best, 0, "{name}");
        assert!(error(0) < 0.5 * energy, "{name}: {}", error(0) / energy);
    }
}

#[test]
fn a_segment_of_any_container_is_a_cut_of_the_whole() {
    // Long enough that compressed streams are reached by seeking.
    for (name, bytes) in every_kind(&samples(160_000)) {
        let whole = whole(name, &bytes).unwrap();
        let rate = 16_000.0;
        let seconds = whole.len() as f64 / rate;
        let mut cuts = vec![(0.0, None), (0.01, Some(0.0201)), (seconds - 0.1, None)];
        cuts.extend((1..20).map(|i| (seconds * f64::from(i) / 20.0, Some(0.25))));
        cuts.extend([(seconds * 0.7, Some(seconds * 0.3)), (seconds * 0.9, None)]);
        for (offset_s, duration_s) in cuts {
            let got = part(name, &bytes, offset_s, duration_s);
            let first = (offset_s * rate).round() as usize;
            let last = duration_s.map_or(whole.len(), |d| first + (d * rate).round() as usize);
            let want = &whole[first..last.min(whole.len())];
            assert_eq!(got.len(), want.len(), "{name} from {offset_s}");
            assert!(got == want, "{name} from {offset_s} for {duration_s:?}");
        }
    }
}

#[test]
fn a_segment_outside_of_any_container_names_the_true_length() {
    for (name, bytes) in every_kind(&samples(160_000)) {
        let seconds = whole(name, &bytes).unwrap().len() as f64 / 16_000.0;
        for (offset_s, duration_s) in
            [(seconds + 0.01, None), (seconds + 100.0, Some(1.0)), (seconds - 0.5, Some(1.0))]
        {
            let result = read_bytes(Path::new(name), &bytes, Some(offset_s), duration_s, &MONO_16K);
            let Err(error) = result else { panic!("{name} from {offset_s} s on reads") };
            assert!(matches!(error, AudioError::Segment { .. }), "{error}");
            let length = format!("recording of {seconds:.3} s");
            assert!(error.to_string().contains(&length), "{error}");
        }
    }
}

#[test]
fn no_cut_copy_passes_for_a_shorter_recording() {
    for (name, bytes) in every_kind(&samples(16_000)) {
        // These have no length of their own.
        if matches!(name, "digits.aac") {
            continue;
        }
        for eighths in 1..8 {
            let error = whole(name, &bytes[..bytes.len() * eighths / 8]).unwrap_err();
            let told = matches!(error, AudioError::Truncated { .. } | AudioError::Malformed { .. });
            assert!(told, "{name}: {error}");
        }
    }
}

#[test]
fn names_mean_nothing_and_a_tag_in_front_is_stepped_over() {
    for (name, bytes) in every_kind(&samples(8_000)) {
        let want = whole(name, &bytes).unwrap();
        assert_eq!(whole("a.txt", &bytes).unwrap(), want, "{name}");
        let tagged = [&b"ID3\x04\0\0\0\0\0\x05title"[..], &bytes].concat();
        assert_eq!(whole("a.wav", &tagged).unwrap(), want, "{name}");
    }
}

#[test]
fn a_file_and_its_bytes_read_the_same() {
    let scratch = tests::Scratch::new("laws-file");
    for (name, bytes) in every_kind(&samples(80_000)) {
        let path = scratch.write(name, &bytes);
        assert_eq!(
            read(&path, Some(2.5), Some(0.5), &MONO_16K).unwrap().samples,
            part(name, &bytes, 2.5, Some(0.5))
        );
    }
}

#[test]
fn shortened_sphere_files_say_how_to_expand_them() {
    let mut bytes = forge::sphere(Take { samples: &[1; 100], channels: 1, rate_hz: 16_000 }, false);
    bytes[1_024..1_028].copy_from_slice(b"ajkg");
    let text = whole("a.sph", &bytes).unwrap_err().to_string();
    assert!(text.contains("shorten") && text.contains("sph2pipe"), "{text}");
}

/// The 73 files of the odd-formats collection, each with what is expected of it.
#[test]
#[ignore = "needs the folder of the odd-formats collection in ASR_ODD_FORMATS"]
fn the_odd_formats_collection_reads_as_it_expects() {
    let folder = PathBuf::from(std::env::var_os("ASR_ODD_FORMATS").expect("ASR_ODD_FORMATS"));
    let manifest = std::fs::read_to_string(folder.join("gen.jsonl")).unwrap();
    let options = ReadOptions { channel: Channel::Index(0), resample: Resample::Allow, ..MONO_16K };
    let mut wrong = Vec::new();
    for line in manifest.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let path = folder.join(line["audio_filepath"].as_str().unwrap());
        let result = read(&path, None, None, &options);
        let fits = match (line["expect"].as_str().unwrap(), &result) {
            ("error", Ok(_)) | ("ok", Err(_)) => false,
            (_, Ok(audio)) => line["duration"]
                .as_f64()
                .is_none_or(|want| (audio.duration_s() - want).abs() < 0.005),
            (_, Err(_)) => true,
        };
        if !fits {
            wrong.push(format!("{line}: {:?}", result.map(|audio| audio.duration_s())));
        }
    }
    assert_eq!(manifest.lines().count(), 73);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
