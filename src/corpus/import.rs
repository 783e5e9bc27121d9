//! Any manifest as JSON lines ([`Writer`]), with the counts of what is there: utterances, hours, speakers,
//! what was left out and why, and how many of the recordings are missing.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{AudioSource, ManifestError, Skipped, Utterance, Writer, kind, read_as};
use crate::durable::{create_atomic_with, refuse_unwritable};
use crate::wording::plural;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The source is broken.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The destination is the source.
    #[error("{}: the destination is the source; name another file", path.display())]
    Same {
        /// Both.
        path: PathBuf,
    },
    /// The destination cannot be written.
    #[error("{}: cannot write the manifest: {source}", path.display())]
    Write {
        /// The destination.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// What the source is.
    pub kind: String,
    /// Utterances written.
    pub utterances: usize,
    /// Seconds that the source claims.
    pub audio_s: f64,
    /// Utterances without a claim.
    pub without_duration: usize,
    /// Distinct speakers.
    pub speakers: usize,
    /// Utterances of nobody.
    pub without_speaker: usize,
    /// What is in the source and is no utterance.
    pub skipped: Vec<Skipped>,
    /// Utterances written whose recordings are not there.
    pub missing: usize,
    /// The first of them: its recording, and where the source names it.
    pub first_missing: String,
}

impl fmt::Display for Imported {
    /// A line a count; what the source does not say is said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacking = |count: usize, what: &str| {
            if count == 0 { String::new() } else { format!("  ({count} without a {what})") }
        };
        writeln!(f, "source      {}", self.kind)?;
        writeln!(f, "utterances  {}", self.utterances)?;
        let hours = match self.without_duration < self.utterances {
            true => format!("{:.2}", self.audio_s / 3_600.0),
            false => "unknown".into(),
        };
        writeln!(f, "hours       {hours}{}", lacking(self.without_duration, "duration"))?;
        write!(f, "speakers    {}{}", self.speakers, lacking(self.without_speaker, "speaker"))?;
        for Skipped { reason, count, first } in &self.skipped {
            write!(f, "\nleft out    {count}  {reason} (first: {first})")?;
        }
        if self.missing > 0 {
            write!(
                f,
                "\nmissing     {}  {} not there (first: {})",
                self.missing,
                plural(self.missing, "recording is", "recordings are"),
                self.first_missing
            )?;
        }
        Ok(())
    }
}

/// Writes the utterances of `source` to `destination`, whole or not at all.
///
/// # Errors
/// See [`ImportError`].
pub fn import(source: &Path, destination: &Path) -> Result<Imported, ImportError> {
    let is_same =
        |a: io::Result<PathBuf>, b: io::Result<PathBuf>| matches!((a, b), (Ok(a), Ok(b)) if a == b);
    if is_same(source.canonicalize(), destination.canonicalize()) {
        return Err(ImportError::Same { path: destination.into() });
    }
    let failed = |source| ImportError::Write { path: destination.into(), source };
    refuse_unwritable(destination).map_err(failed)?;
    let kind = kind::tell(source)?;
    let manifest = read_as(source, &kind)?;
    let mut writer = Writer::of(destination).map_err(failed)?;
    let utterances: Vec<Utterance> = manifest.utterances().collect();
    // A tar file was looked into: what it holds is there.
    let is_missing = |utterance: &&Utterance| match utterance.audio() {
        AudioSource::File(path) => !path.is_file(),
        AudioSource::Member { .. } => false,
    };
    let missing: Vec<&Utterance> = utterances.par_iter().filter(is_missing).collect();
    let first_missing =
        missing.first().map(|first| format!("{}, {}", first.audio(), first.place()));
    let mut imported = Imported {
        kind: kind.to_string(),
        utterances: manifest.len(),
        audio_s: 0.0,
        without_duration: 0,
        speakers: manifest.num_speakers(),
        without_speaker: 0,
        skipped: manifest.skipped().to_vec(),
        missing: missing.len(),
        first_missing: first_missing.unwrap_or_default(),
    };
    create_atomic_with(destination, |out| {
        for utterance in &utterances {
            imported.audio_s += utterance.duration_s().unwrap_or(0.0);
            imported.without_duration += usize::from(utterance.duration_s().is_none());
            imported.without_speaker += usize::from(utterance.speaker().is_none());
            writer.write(out, utterance)?;
        }
        Ok(())
    })
    .map_err(failed)?;
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Facts, Tree, facts};
    use super::super::{Manifest, read};
    use super::*;
    use std::sync::Arc;

    /// With every file named by its resolved folder: two spellings of a file are one file.
    fn resolved(manifest: &Arc<Manifest>) -> Vec<Facts> {
        let mut found = facts(manifest);
        for (_, audio, ..) in &mut found {
            let path = audio.file().to_owned();
            let folder = path.parent().unwrap();
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
            let path = folder.join(path.file_name().unwrap());
            match audio {
                AudioSource::File(file) => *file = path,
                AudioSource::Member { tar, .. } => *tar = path,
            }
        }
        found
    }

    /// Reads, imports, reads back, and imports what was imported.
    #[track_caller]
    fn round_trip(tree: &Tree, source: &str, destination: &str) -> Imported {
        let (source, destination) = (tree.path(source), tree.path(destination));
        std::fs::create_dir_all(destination.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&destination);
        let imported = import(&source, &destination).unwrap();
        let want = resolved(&read(&source).unwrap());
        assert_eq!(resolved(&read(&destination).unwrap()), want);
        let again = destination.with_extension("again.jsonl");
        let _ = std::fs::remove_file(&again);
        import(&destination, &again).unwrap();
        assert_eq!(std::fs::read(again).unwrap(), std::fs::read(destination).unwrap());
        imported
    }

    #[test]
    fn what_is_imported_reads_back_the_same() {
        let tree = Tree::new(&[
            (
                "nemo/m.jsonl",
                "{\"audio_filepath\":\"x/a.wav\",\"text\":\" \\\"q\\\" \\u00e9\\n\\ud83d\\ude00 \",\"duration\":0.1,\"offset\":1e-7,\"speaker\":\"\",\"channel\":1}\n{\"audio_filepath\":\"../far/b (1).wav\",\"text\":\"\",\"duration\":12.345678901234567}\n{\"audio_filepath\":\"/nowhere/c.wav\",\"text\":\"c\"}\n{\"audio_filepath\":\"x/a.wav\",\"text\":\"twice\"}\n{\"audio_filepath\":\"x/a.wav\",\"text\":\"thrice\"}\n",
            ),
            ("nemo/x/a.wav", ""),
            ("far/b (1).wav", ""),
            ("kaldi/wav.scp", "r a.wav\ns /x/b.wav\n"),
            ("kaldi/segments", "u1 r 0.1 0.7\nu2 s 2.49 -1\n"),
            ("kaldi/text", "u1 A  B\nu2 C\n"),
            ("kaldi/utt2spk", "u1 anna\nu2 ben\n"),
            ("libri/1/2/1-2.trans.txt", "1-2-0 HELLO\n"),
            ("libri/1/2/1-2-0.flac", ""),
            ("cv/train.tsv", "path\tsentence\na.mp3\t\"one\\\"\n"),
            ("cv/clips/a.mp3", ""),
            ("lj/metadata.csv", "L1|a|b\n"),
            ("lj/wavs/L1.wav", ""),
        ]);
        for source in ["nemo/m.jsonl", "kaldi", "libri", "cv/train.tsv", "lj/metadata.csv"] {
            for destination in ["out.jsonl", "libri/out.jsonl", "some/deep/folder/out.jsonl"] {
                round_trip(&tree, source, destination);
            }
        }
    }

    #[test]
    fn random_utterances_read_back_the_same() {
        use rand::{Rng, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let mut text = String::new();
        for i in 0..3_000 {
            let letters =
                ["a", " ", "\u{7f}", "\u{1}", "\u{2028}", "/", "\\", "\"", "\u{1f600}", "\u{301}"];
            let mut word = |n: u32| -> String {
                (0..rng.random_range(1..=n))
                    .map(|_| letters[rng.random_range(0..10_u32) as usize])
                    .collect()
            };
            let (audio, transcript, speaker) =
                (format!("f{i}{}x", word(6).replace('/', "_")), word(20), word(3));
            let mut line = serde_json::json!({"audio_filepath": audio, "text": transcript});
            let bits = rng.random::<u32>();
            if bits & 1 > 0 {
                line["speaker"] = speaker.into();
            }
            if bits & 2 > 0 {
                line["duration"] =
                    (rng.random::<f64>() * 10_f64.powi(rng.random_range(-9..6)) + 1e-9).into();
            }
            if bits & 4 > 0 {
                line["offset"] = (rng.random::<f64>() * 1e4).into();
            }
            if bits & 8 > 0 {
                line["id"] = format!("id {i}\"").into();
            }
            if bits & 16 > 0 {
                line["channel"] = (bits >> 20).into();
            }
            text += &format!("{line}\n");
        }
        let tree = Tree::new(&[("in/m.jsonl", &text)]);
        let imported = round_trip(&tree, "in/m.jsonl", "out/m.jsonl");
        assert_eq!(imported.utterances, 3_000);
    }

    #[test]
    fn counts_say_what_is_there_and_what_is_not() {
        let tree = Tree::new(&[
            ("wav.scp", "a a.wav\nb b.wav\nc c.wav\n"),
            ("text", "a A\nb B\n"),
            ("utt2spk", "a anna\n"),
            ("utt2dur", "b 1800\n"),
            ("a.wav", ""),
        ]);
        let imported = import(&tree.path(""), &tree.path("m.jsonl")).unwrap();
        assert_eq!((imported.kind.as_str(), imported.utterances), ("Kaldi data directory", 2));
        assert_eq!((imported.audio_s, imported.without_duration), (1_800.0, 1));
        assert_eq!((imported.speakers, imported.without_speaker), (1, 1));
        let scp = tree.path("wav.scp");
        let want = format!(
            "source      Kaldi data directory\nutterances  2\nhours       0.50  (1 without a duration)\nspeakers    1  (1 without a speaker)\nleft out    1  no transcript in text (first: \"c\" of {})\nmissing     1  recording is not there (first: {}, {}:2)",
            scp.display(),
            tree.path("b.wav").display(),
            tree.path("text").display(),
        );
        assert_eq!(imported.to_string(), want);
        let text = std::fs::read_to_string(tree.path("m.jsonl")).unwrap();
        assert!(text.starts_with(
            "{\"audio_filepath\":\"a.wav\",\"text\":\"A\",\"speaker\":\"anna\",\"id\":\"a\"}\n"
        ));
    }

    #[test]
    fn a_broken_source_and_a_bad_destination_write_nothing() {
        let tree = Tree::new(&[
            ("bad.jsonl", "x\n"),
            ("good.jsonl", "{\"audio_filepath\":\"a\",\"text\":\"\"}\n"),
            ("old.jsonl", "old"),
        ]);
        let error = import(&tree.path("bad.jsonl"), &tree.path("new.jsonl")).unwrap_err();
        assert!(matches!(error, ImportError::Manifest(_)));
        let error = import(&tree.path("good.jsonl"), &tree.path("old.jsonl")).unwrap_err();
        assert!(error.to_string().contains("there is such a file already"), "{error}");
        let error = import(&tree.path("good.jsonl"), &tree.path("none/m.jsonl")).unwrap_err();
        assert!(matches!(error, ImportError::Write { .. }));
        let error = import(&tree.path("good.jsonl"), &tree.path("good.jsonl")).unwrap_err();
        assert!(matches!(error, ImportError::Same { .. }));
        let mut names: Vec<_> =
            std::fs::read_dir(tree.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["bad.jsonl", "good.jsonl", "old.jsonl"]);
        assert_eq!(std::fs::read(tree.path("old.jsonl")).unwrap(), b"old");
    }

    #[cfg(unix)]
    #[test]
    fn the_way_up_goes_through_resolved_folders() {
        let tree = Tree::new(&[
            ("disk/corpus/m.jsonl", "{\"audio_filepath\":\"a.wav\",\"text\":\"\"}\n"),
            ("disk/corpus/a.wav", ""),
            ("disk/out/x", ""),
        ]);
        std::os::unix::fs::symlink(tree.path("disk/out"), tree.path("link")).unwrap();
        import(&tree.path("disk/corpus/m.jsonl"), &tree.path("link/m.jsonl")).unwrap();
        let text = std::fs::read_to_string(tree.path("link/m.jsonl")).unwrap();
        assert!(text.contains("\"../corpus/a.wav\""), "{text}");
        assert!(
            read(&tree.path("link/m.jsonl"))
                .unwrap()
                .utterances()
                .next()
                .unwrap()
                .audio()
                .file()
                .is_file()
        );
    }
}
