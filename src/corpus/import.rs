//! Any manifest as JSON lines: exact texts, ids, speakers, times; paths relative to the new file where the
//! recordings are below it or share a folder with it, absolute where they share nothing but the root.
//! What is written reads back as the same utterances.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use super::jsonl::Written;
use super::{AudioSource, ManifestError, Skipped, Utterance, kind, read_as};
use crate::durable::{create_atomic_with, refuse_existing};

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
    refuse_existing(destination).map_err(failed)?;
    let kind = kind::tell(source)?;
    let manifest = read_as(source, &kind)?;
    let mut paths = RelativePaths::to(destination).map_err(failed)?;
    let mut imported = Imported {
        kind: kind.to_string(),
        utterances: manifest.len(),
        audio_s: 0.0,
        without_duration: 0,
        speakers: manifest.num_speakers(),
        without_speaker: 0,
        skipped: manifest.skipped().to_vec(),
    };
    create_atomic_with(destination, |out| {
        for utterance in manifest.utterances() {
            imported.audio_s += utterance.duration_s().unwrap_or(0.0);
            imported.without_duration += usize::from(utterance.duration_s().is_none());
            imported.without_speaker += usize::from(utterance.speaker().is_none());
            write_line(out, &utterance, &mut paths)?;
        }
        Ok(())
    })
    .map_err(failed)?;
    Ok(imported)
}

fn write_line(
    out: &mut impl Write,
    utterance: &Utterance,
    paths: &mut RelativePaths,
) -> io::Result<()> {
    let audio = utterance.audio();
    let member = match &audio {
        AudioSource::File(_) => None,
        AudioSource::Member { name, span, .. } => Some((name.as_str(), *span)),
    };
    let line = Written {
        audio_filepath: Cow::Owned(paths.of(audio.file())?),
        duration: utterance.duration_s(),
        offset: utterance.offset_s(),
        text: utterance.text(),
        speaker: utterance.speaker(),
        id: utterance.id(),
        channel: utterance.channel(),
        member: member.map(|(name, _)| name),
        member_offset: member.map(|(_, span)| span.start),
        member_bytes: member.map(|(_, span)| span.len),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

/// Paths as seen from the folder of a file.
struct RelativePaths {
    folder: PathBuf,
    /// The folders seen, with a slash at the end of what they become.
    known: HashMap<PathBuf, String>,
}

impl RelativePaths {
    fn to(file: &Path) -> io::Result<RelativePaths> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::path::absolute(folder.unwrap_or(Path::new(".")))?;
        Ok(RelativePaths { folder, known: HashMap::new() })
    }

    fn of(&mut self, path: &Path) -> io::Result<String> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = text(Path::new(path.file_name().unwrap_or_default()))?;
        if let Some(prefix) = self.known.get(folder) {
            return Ok(format!("{prefix}{name}"));
        }
        let seen = text(&self.folder_of(folder)?)?;
        let prefix = if seen.is_empty() || seen.ends_with('/') { seen } else { format!("{seen}/") };
        let whole = format!("{prefix}{name}");
        self.known.insert(folder.to_owned(), prefix);
        Ok(whole)
    }

    fn folder_of(&self, folder: &Path) -> io::Result<PathBuf> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let folder = std::path::absolute(folder)?;
        if let Ok(below) = folder.strip_prefix(&self.folder) {
            return Ok(below.to_owned());
        }
        // `..` leaves a link through its target: only resolved folders have a way up that is true.
        let (Ok(to), Ok(from)) = (folder.canonicalize(), self.folder.canonicalize()) else {
            return Ok(folder);
        };
        let shared = to.components().zip(from.components()).take_while(|(a, b)| a == b).count();
        let is_only_root = !to.components().take(shared).any(|c| matches!(c, Component::Normal(_)));
        if is_only_root {
            return Ok(folder);
        }
        let up = from.components().skip(shared).map(|_| Component::ParentDir);
        Ok(up.chain(to.components().skip(shared)).collect())
    }
}

/// Manifests are UTF-8, and separate folders by `/` everywhere.
fn text(path: &Path) -> io::Result<String> {
    let reason = || {
        let reason =
            format!("the name {} is not UTF-8, which JSON cannot hold; rename it", path.display());
        io::Error::new(io::ErrorKind::InvalidData, reason)
    };
    let text = path.to_str().ok_or_else(reason)?;
    Ok(if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() })
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
        ]);
        let imported = import(&tree.path(""), &tree.path("m.jsonl")).unwrap();
        assert_eq!((imported.kind.as_str(), imported.utterances), ("Kaldi data directory", 2));
        assert_eq!((imported.audio_s, imported.without_duration), (1_800.0, 1));
        assert_eq!((imported.speakers, imported.without_speaker), (1, 1));
        let scp = tree.path("wav.scp");
        let want = format!(
            "source      Kaldi data directory\nutterances  2\nhours       0.50  (1 without a duration)\nspeakers    1  (1 without a speaker)\nleft out    1  no transcript in text (first: {})",
            scp.display()
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
