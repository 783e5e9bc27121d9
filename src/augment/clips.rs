//! Noises and room responses: JSON-lines manifests with `audio_filepath` (relative to the manifest) and
//! optionally `offset` and `duration`. Each clip is read once when a run starts, so that a broken one is
//! named before the first step; it stays in memory while there is room, and is else read again when it is
//! drawn. Other rates are converted, and of several channels the first is used.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use rand::Rng;
use rayon::prelude::*;
use serde::Deserialize;

use super::AugmentError;
use crate::audio::{Channel, ReadOptions, Resample, read};
use crate::corpus::{AUDIO, Fault, Faults, Malformed, from_json, lines_of, refuse_recording};

/// A set of clips.
#[derive(Default)]
pub(super) struct Clips {
    clips: Vec<Clip>,
    sample_rate_hz: u32,
}

struct Clip {
    path: PathBuf,
    offset_s: Option<f64>,
    duration_s: Option<f64>,
    place: String,
    num_samples: usize,
    /// Mean over the clip.
    power: f64,
    samples: Option<Vec<f32>>,
}

#[derive(Deserialize)]
struct Line {
    audio_filepath: PathBuf,
    offset: Option<f64>,
    duration: Option<f64>,
}

impl Clips {
    /// Reads the manifests and their clips; `room_for` samples may stay in memory, and what is taken is
    /// subtracted.
    pub(super) fn open(
        manifests: &[PathBuf],
        sample_rate_hz: u32,
        room_for: &mut usize,
    ) -> Result<Clips, AugmentError> {
        let mut listed = Vec::new();
        for manifest in manifests {
            listed.extend(list(manifest)?);
        }
        let mut set = Clips { clips: Vec::new(), sample_rate_hz };
        // Some at a time, so that no more is in memory at once than may stay, and these.
        for part in listed.chunks(256) {
            let looked: Result<Vec<(Clip, Vec<f32>)>, AugmentError> = part
                .par_iter()
                .map(|(line, place)| {
                    let mut clip = Clip::of(line, place);
                    let samples = set.decode(&clip)?;
                    clip.num_samples = samples.len();
                    clip.power = mean_power(&samples);
                    Ok((clip, samples))
                })
                .collect();
            for (mut clip, samples) in looked? {
                if let Some(left) = room_for.checked_sub(samples.len()) {
                    *room_for = left;
                    clip.samples = Some(samples);
                }
                set.clips.push(clip);
            }
        }
        Ok(set)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clips.is_empty()
    }

    /// Clips with no more power than this.
    pub(super) fn quieter_than(&self, power: f64) -> impl Iterator<Item = (&str, &Path)> {
        let quiet = self.clips.iter().filter(move |clip| clip.power <= power);
        quiet.map(|clip| (clip.place.as_str(), clip.path.as_path()))
    }

    /// Refuses clips that hold only zeros.
    pub(super) fn refuse_silence(&self) -> Result<(), AugmentError> {
        let mut silent = self.quieter_than(0.0);
        let Some((place, path)) = silent.next() else { return Ok(()) };
        let (place, path) = (place.to_owned(), path.to_owned());
        Err(AugmentError::SilentResponse { place, path, more: silent.count() })
    }

    /// One of the clips, each as likely.
    pub(super) fn choose(&self, rng: &mut impl Rng) -> usize {
        rng.random_range(0..self.clips.len() as u64) as usize
    }

    /// All samples of a clip.
    pub(super) fn whole(&self, index: usize) -> Result<Cow<'_, [f32]>, AugmentError> {
        let clip = &self.clips[index];
        match &clip.samples {
            Some(samples) => Ok(Cow::Borrowed(samples)),
            None => self.decode(clip).map(Cow::Owned),
        }
    }

    /// `len` samples from a random place, or a shorter clip from a random place on and around, to be
    /// repeated.
    pub(super) fn stretch(
        &self,
        index: usize,
        len: usize,
        rng: &mut impl Rng,
    ) -> Result<Cow<'_, [f32]>, AugmentError> {
        let clip = &self.clips[index];
        let starts =
            if clip.num_samples > len { clip.num_samples - len + 1 } else { clip.num_samples };
        let start = rng.random_range(0..starts as u64) as usize;
        let whole = self.whole(index)?;
        if clip.num_samples > len {
            return Ok(match whole {
                Cow::Borrowed(samples) => Cow::Borrowed(&samples[start..start + len]),
                Cow::Owned(samples) => Cow::Owned(samples[start..start + len].to_vec()),
            });
        }
        let mut turned = whole.into_owned();
        turned.rotate_left(start);
        Ok(Cow::Owned(turned))
    }

    fn decode(&self, clip: &Clip) -> Result<Vec<f32>, AugmentError> {
        let options = ReadOptions {
            sample_rate_hz: self.sample_rate_hz,
            channel: Channel::Index(0),
            resample: Resample::Allow,
        };
        // As for utterances, a duration without an offset describes the whole recording.
        let duration_s = clip.offset_s.and(clip.duration_s);
        match read(&clip.path, clip.offset_s, duration_s, &options) {
            Ok(waveform) => Ok(waveform.samples),
            Err(source) => Err(AugmentError::Clip { place: clip.place.clone(), source }),
        }
    }
}

impl Clip {
    fn of(line: &Line, place: &str) -> Clip {
        Clip {
            path: line.audio_filepath.clone(),
            offset_s: line.offset,
            duration_s: line.duration,
            place: place.to_owned(),
            num_samples: 0,
            power: 0.0,
            samples: None,
        }
    }
}

fn mean_power(samples: &[f32]) -> f64 {
    let energy = samples.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    energy / samples.len().max(1) as f64
}

/// The lines of a manifest, each with its place, paths resolved.
fn list(manifest: &Path) -> Result<Vec<(Line, String)>, AugmentError> {
    let path = || manifest.to_owned();
    let bytes =
        std::fs::read(manifest).map_err(|source| AugmentError::Read { path: path(), source })?;
    let name = manifest.file_name().unwrap_or_default().to_string_lossy();
    refuse_recording(&bytes, &serde_json::json!({ "audio_filepath": name }))
        .map_err(|reason| AugmentError::Kind { path: path(), reason })?;
    let folder = manifest.parent().unwrap_or(Path::new(""));
    let (mut lines, mut faults) = (Vec::new(), Faults::default());
    for (line, bytes) in lines_of(&bytes) {
        match from_json::<Line>(bytes, &[AUDIO]) {
            Ok(mut clip) => {
                clip.audio_filepath = folder.join(&clip.audio_filepath);
                lines.push((clip, format!("{}:{line}", manifest.display())));
            }
            Err(Malformed { column, reason }) => {
                faults.push(Fault { path: path(), line: Some(line), column, reason });
            }
        }
    }
    if faults.total() > 0 {
        return Err(AugmentError::Faults { path: path(), faults });
    }
    if lines.is_empty() {
        return Err(AugmentError::Empty { path: path() });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::audio::tests::{Scratch, tone};

    fn manifest(scratch: &Scratch, text: &str) -> PathBuf {
        scratch.write("clips.jsonl", text.as_bytes())
    }

    #[test]
    fn clips_are_read_as_segments_at_the_wanted_rate_and_of_their_first_channel() {
        let scratch = Scratch::new("clips-read");
        let (left, right) = (tone(200.0, 8_000, 8_000), vec![0.1; 8_000]);
        scratch.wav("two.wav", 8_000, &[&left, &right]);
        let text = "\u{feff}{\"audio_filepath\": \"two.wav\", \"duration\": 3, \"text\": \"-\"}\r\n\n{\"audio_filepath\": \"two.wav\", \"offset\": 0.5, \"duration\": 0.25}\n";
        let clips = Clips::open(&[manifest(&scratch, text)], 16_000, &mut 1_000_000).unwrap();
        assert_eq!(clips.whole(0).unwrap().len(), 16_000);
        assert_eq!(clips.whole(1).unwrap().len(), 4_000);
        assert!(clips.whole(0).unwrap().iter().any(|x| *x > 0.4), "the left one");
    }

    #[test]
    fn what_does_not_fit_is_read_again_and_is_the_same() {
        let scratch = Scratch::new("clips-cache");
        scratch.wav("a.wav", 16_000, &[&tone(200.0, 16_000, 3_000)]);
        let path = manifest(&scratch, &"{\"audio_filepath\": \"a.wav\"}\n".repeat(3));
        let mut room_for = 7_000;
        let clips = Clips::open(&[path], 16_000, &mut room_for).unwrap();
        assert_eq!(room_for, 1_000);
        assert_eq!(clips.clips.iter().filter(|clip| clip.samples.is_some()).count(), 2);
        let draw = |index, len| {
            let mut rng = ChaCha8Rng::seed_from_u64(len as u64);
            clips.stretch(index, len, &mut rng).unwrap().into_owned()
        };
        for len in [1, 500, 3_000, 5_000] {
            assert_eq!(draw(0, len), draw(2, len));
            assert_eq!(draw(0, len).len(), len.min(3_000));
        }
        std::fs::remove_file(scratch.0.join("a.wav")).unwrap();
        let error = clips.whole(2).unwrap_err().to_string();
        assert!(error.contains("clips.jsonl:3") && error.contains("a.wav"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let scratch = Scratch::new("clips-wrong");
        scratch.wav("zeros.wav", 16_000, &[&[0.0; 100]]);
        for (text, words) in [
            (
                "\n{\"audio\": 3}",
                "clips.jsonl:2:12: no key \"audio_filepath\"; the nearest is \"audio\"",
            ),
            ("x\n{}\n{}\ny\n", "clips.jsonl: 4 faults; each line is a JSON object with"),
            ("RIFF\u{1}...WAVEfmt ", "with the line {\"audio_filepath\":\"clips.jsonl\"}"),
            ("{\"audio_filepath\": \"no.wav\"}", "clips.jsonl:1: "),
            ("{\"audio_filepath\": \"zeros.wav\", \"offset\": 9}", "not within the recording"),
            ("\n \n", "holds no clips"),
        ] {
            let path = manifest(&scratch, text);
            let error = Clips::open(&[path], 16_000, &mut 0).err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
        let path = manifest(&scratch, "{\"audio_filepath\": \"zeros.wav\"}");
        let clips = Clips::open(&[path], 16_000, &mut 0).unwrap();
        let error = clips.refuse_silence().unwrap_err().to_string();
        assert!(error.contains("clips.jsonl:1") && error.contains("only zeros"), "{error}");
        let error = Clips::open(&["/nonexistent".into()], 16_000, &mut 0).err().unwrap();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
    }
}
