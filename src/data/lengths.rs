//! How long each training recording was when a run began. A run that goes on looks at the recordings
//! again; one that has gone bad meanwhile is left out by name, as it would have been without the
//! interruption, and its place in the batches is still known. 12 bytes an utterance, in the run directory.

use std::io::{self, Write};
use std::path::PathBuf;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::{Survey, Surveyed, Utterance};

/// The first line of the file.
const MAGIC: &[u8] = b"asr training lengths, format 2\n";

/// A key and a number of samples, as they are written: the key first and most significant byte first,
/// so that entries are in the order of their keys.
type Entry = [u8; KEY_LEN + 4];

const KEY_LEN: usize = 8;

/// Samples of utterances, by what identifies these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lengths {
    /// Rising.
    entries: Vec<Entry>,
}

/// Why a file of lengths is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: not the lengths of a run's recordings ({reason}); remove it, and recordings that went bad during the run stop it again", path.display()
)]
pub struct LengthsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl Lengths {
    /// The lengths of all that was sound, used or not.
    pub fn of(survey: &Survey, sample_rate_hz: u32) -> Lengths {
        let rate_hz = f64::from(sample_rate_hz);
        let kept = |kept: &Surveyed| entry(&kept.utterance, kept.num_samples() as u32);
        let mut entries = Vec::with_capacity(survey.kept.len() + survey.dropped.len());
        entries.par_extend(survey.kept.par_iter().map(kept));
        entries.extend(survey.dropped.iter().map(|dropped| {
            entry(&dropped.utterance, (dropped.duration_s * rate_hz).round() as u32)
        }));
        entries.par_sort_unstable();
        Lengths { entries }
    }

    /// Samples that an utterance had.
    pub fn num_samples(&self, utterance: &Utterance) -> Option<u32> {
        let wanted = key(utterance);
        let at = self.entries.binary_search_by(|entry| entry[..KEY_LEN].cmp(&wanted)).ok()?;
        let [.., a, b, c, d] = self.entries[at];
        Some(u32::from_be_bytes([a, b, c, d]))
    }

    /// Writes them.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        out.write_all(self.entries.as_flattened())
    }

    /// Reads what [`Lengths::write`] wrote to `path`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_bytes(bytes: &[u8], path: PathBuf) -> Result<Lengths, LengthsError> {
        let fail = |reason: &str| Err(LengthsError { path, reason: reason.into() });
        let Some(entries) = bytes.strip_prefix(MAGIC) else {
            return fail("its first line is another");
        };
        let (entries, rest) = entries.as_chunks();
        if !rest.is_empty() {
            return fail("it is cut short");
        }
        if !entries.is_sorted() {
            return fail("its entries are not in order");
        }
        Ok(Lengths { entries: entries.to_vec() })
    }
}

/// Ids are unique in one manifest only: recording and part identify an utterance besides.
fn key(utterance: &Utterance) -> [u8; KEY_LEN] {
    let mut hash = Sha256::new();
    hash.update(utterance.audio().name().as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(utterance.id());
    for seconds in [utterance.offset_s(), utterance.duration_s()] {
        hash.update(seconds.unwrap_or(f64::NAN).to_bits().to_le_bytes());
    }
    let digest = hash.finalize();
    std::array::from_fn(|i| digest[i])
}

fn entry(utterance: &Utterance, num_samples: u32) -> Entry {
    let mut entry = Entry::default();
    entry[..KEY_LEN].copy_from_slice(&key(utterance));
    entry[KEY_LEN..].copy_from_slice(&num_samples.to_be_bytes());
    entry
}

#[cfg(test)]
mod tests {
    use super::super::survey::tests::corpus;
    use super::super::{DataConfig, survey, survey_again};
    use super::*;
    use crate::audio::tests::Scratch;

    #[test]
    fn what_is_written_reads_back_and_what_is_not_is_refused() {
        let scratch = Scratch::new("lengths");
        let config = DataConfig { min_duration_s: 0.3, ..DataConfig::default() };
        let utterances = corpus(&scratch, &[(8_000, "a"), (5_001, "b"), (4_000, "short")]);
        let surveyed = survey(utterances.clone(), &config, 16_000, &|| {}).unwrap();
        let lengths = Lengths::of(&surveyed, 16_000);
        let found: Vec<_> = utterances.iter().map(|u| lengths.num_samples(u)).collect();
        assert_eq!(found, [Some(8_000), Some(5_001), Some(4_000)], "dropped or not");
        let mut bytes = Vec::new();
        lengths.write(&mut bytes).unwrap();
        let read = |bytes: &[u8]| Lengths::from_bytes(bytes, "x/lengths".into());
        assert_eq!(read(&bytes).unwrap(), lengths);
        assert!(read(&bytes[..bytes.len() - 5]).unwrap_err().to_string().contains("cut short"));
        assert!(read(b"").unwrap_err().to_string().contains("x/lengths"));
        let mut swapped = bytes[..MAGIC.len()].to_vec();
        for entry in bytes[MAGIC.len()..].chunks(size_of::<Entry>()).rev() {
            swapped.extend(entry);
        }
        assert!(read(&swapped).is_err());
    }

    #[test]
    fn a_recording_that_went_bad_keeps_its_place_and_its_decision() {
        let scratch = Scratch::new("lengths-gone");
        let config = DataConfig { min_duration_s: 0.3, ..DataConfig::default() };
        let parts = [(8_000, "a"), (5_001, "b"), (4_000, "short"), (9_000, "d"), (7_000, "e")];
        let utterances = corpus(&scratch, &parts);
        let before = survey(utterances.clone(), &config, 16_000, &|| {}).unwrap();
        let lengths = Lengths::of(&before, 16_000);
        std::fs::remove_file(scratch.0.join("u1.wav")).unwrap();
        scratch.write("u2.wav", b"");
        scratch.wav("u3.wav", 16_000, &[&[0.25; 100]]);
        let again =
            survey_again(utterances.clone(), &config, 16_000, Some(&lengths), &|| {}).unwrap();
        let facts = |survey: &Survey| -> Vec<(String, usize, f64)> {
            let fact = |kept: &Surveyed| {
                (kept.utterance.id().to_owned(), kept.num_samples(), kept.duration_s())
            };
            survey.kept.iter().map(fact).collect()
        };
        assert_eq!(facts(&again), facts(&before));
        assert_eq!(again.dropped.len(), 1, "too short then, and of no interest since");
        let [(1, missing), (2, changed)] = &again.gone[..] else { panic!("{:?}", again.gone) };
        assert!(missing.contains("\"u1\"") && missing.contains("No such file"), "{missing}");
        assert!(changed.contains("100 samples but had 9000"), "{changed}");
        assert_eq!(Lengths::of(&again, 16_000), lengths, "a second resumption knows the same");
        // What the run never knew stops it, as at its start.
        std::fs::remove_file(scratch.0.join("u0.wav")).unwrap();
        let other = Lengths::default();
        let error = survey_again(utterances, &config, 16_000, Some(&other), &|| {}).unwrap_err();
        assert!(error.to_string().contains("u0.wav"), "{error}");
    }
}
