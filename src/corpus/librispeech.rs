//! Trees like LibriSpeech's: `SPEAKER/CHAPTER/SPEAKER-CHAPTER.trans.txt` with lines of an id and its text,
//! and a recording `ID.flac` (or of another kind) beside it. The tree may be the whole corpus, one set,
//! one speaker or one chapter. Recordings without a line are left out and counted; a line without a
//! recording is an error. <https://www.openslr.org/12>

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::{Builder, Entry, Malformed};
use super::kind::is_audio;
use super::lines::{utf8, word_and_rest};
use super::{Fault, Manifest, ManifestError};

/// What the name of a transcript ends with.
const ENDING: &str = ".trans.txt";

/// Folders between the tree that is named and a chapter: corpus, set, speaker, chapter.
const MAX_DEPTH: usize = 4;

const EXPECTED: &str = "each line of a transcript is `ID TEXT`, with a recording ID.flac beside it";

/// The transcripts of the tree, sorted.
pub(super) fn transcripts(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(directory, MAX_DEPTH, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Asked of the folder, not of each of a million files; links are followed.
        let kind = entry.file_type()?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().ends_with(ENDING) {
            found.push(path);
        } else if depth > 0 && (kind.is_dir() || (kind.is_symlink() && path.is_dir())) {
            walk(&path, depth - 1, found)?;
        }
    }
    Ok(())
}

pub(super) fn read(
    directory: &Path,
    transcripts: &[PathBuf],
) -> Result<Arc<Manifest>, ManifestError> {
    let mut builder = Builder::new(directory, EXPECTED);
    for transcript in transcripts {
        let failed = |source| ManifestError::Read { path: transcript.clone(), source };
        let text = fs::read(transcript).map_err(failed)?;
        builder.start_source(transcript);
        let chapter = transcript.parent().unwrap_or(directory);
        let below = chapter.strip_prefix(directory).unwrap_or(chapter);
        let Some(below) = below.to_str() else {
            let reason = "the folder's name is not UTF-8; rename it".into();
            builder.fault(Fault { path: chapter.into(), line: None, column: None, reason });
            continue;
        };
        // Only Windows separates otherwise.
        let below = below.replace(std::path::MAIN_SEPARATOR, "/");
        let name = transcript.file_name().unwrap_or_default().to_string_lossy();
        let speaker = name.trim_end_matches(ENDING).split('-').next().unwrap_or_default();
        let mut recordings = recordings(chapter).map_err(failed)?;
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match parse(line, &mut recordings) {
                Ok((id, text, name)) => {
                    let audio = if below.is_empty() { name } else { format!("{below}/{name}") };
                    let entry = Entry {
                        audio: Cow::Owned(audio),
                        text: Cow::Borrowed(text),
                        id: Some(Cow::Borrowed(id)),
                        speaker: Some(Cow::Borrowed(speaker)),
                        ..Entry::default()
                    };
                    builder.push(at + 1, &entry);
                }
                Err(malformed) => builder.malformed(at + 1, malformed),
            }
        }
        let mut left: Vec<String> = recordings.into_values().collect();
        left.sort();
        for name in left {
            builder.skip("recording without a line in its transcript", || {
                chapter.join(name).display().to_string()
            });
        }
    }
    builder.finish(directory)
}

/// Id, text and the recording's file name, which is taken out of `recordings`.
fn parse<'a>(
    line: &'a [u8],
    recordings: &mut HashMap<String, String>,
) -> Result<(&'a str, &'a str, String), Malformed> {
    let (id, text) = word_and_rest(utf8(line)?);
    match recordings.remove(id) {
        Some(name) => Ok((id, text, name)),
        None => {
            Err(Malformed::new(format!("id {id:?} has no recording left beside the transcript")))
        }
    }
}

/// File names of recordings by their stems.
fn recordings(chapter: &Path) -> io::Result<HashMap<String, String>> {
    let mut names = HashMap::new();
    for entry in fs::read_dir(chapter)? {
        if let Ok(name) = entry?.file_name().into_string()
            && is_audio(&name)
            && let Some((stem, _)) = name.rsplit_once('.')
        {
            names.insert(stem.to_owned(), name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::super::AudioSource;
    use super::super::tests::Tree;

    fn tree() -> Tree {
        Tree::new(&[
            (
                "LibriSpeech/dev-clean/84/121123/84-121123.trans.txt",
                "84-121123-0000 GO DO YOU\n84-121123-0001 \n",
            ),
            ("LibriSpeech/dev-clean/84/121123/84-121123-0000.flac", ""),
            ("LibriSpeech/dev-clean/84/121123/84-121123-0001.ogg", ""),
            ("LibriSpeech/dev-clean/84/121123/84-121123-0002.flac", ""),
            (
                "LibriSpeech/dev-clean/174/50561/174-50561.trans.txt",
                "174-50561-0000 FORGOTTEN TOO\n",
            ),
            ("LibriSpeech/dev-clean/174/50561/174-50561-0000.flac", ""),
            ("LibriSpeech/SPEAKERS.TXT", ""),
        ])
    }

    #[test]
    fn corpus_set_speaker_and_chapter_are_read_alike() {
        let tree = tree();
        let chapter = "LibriSpeech/dev-clean/84/121123";
        for name in ["", "LibriSpeech", "LibriSpeech/dev-clean"] {
            let facts = tree.facts(name);
            let ids: Vec<&str> = facts.iter().map(|facts| facts.0.as_str()).collect();
            assert_eq!(ids, ["174-50561-0000", "84-121123-0000", "84-121123-0001"]);
        }
        for name in ["LibriSpeech/dev-clean/84", chapter] {
            let file =
                |id: &str| AudioSource::File(tree.path(&format!("{chapter}/84-121123-{id}")));
            let speaker = || Some("84".to_owned());
            let want = [
                (
                    "84-121123-0000".into(),
                    file("0000.flac"),
                    "GO DO YOU".into(),
                    None,
                    None,
                    speaker(),
                    None,
                ),
                (
                    "84-121123-0001".into(),
                    file("0001.ogg"),
                    String::new(),
                    None,
                    None,
                    speaker(),
                    None,
                ),
            ];
            assert_eq!(tree.facts(name), want);
        }
        let skipped = super::super::read(&tree.path("")).unwrap().skipped()[0].clone();
        assert_eq!(skipped.count, 1);
        assert!(skipped.first.ends_with("84-121123-0002.flac"), "{skipped:?}");
    }

    #[test]
    fn a_line_without_a_recording_is_named() {
        let tree = tree();
        std::fs::remove_file(tree.path("LibriSpeech/dev-clean/84/121123/84-121123-0001.ogg"))
            .unwrap();
        let error = tree.error("LibriSpeech");
        let want = "LibriSpeech/dev-clean/84/121123/84-121123.trans.txt:2: id \"84-121123-0001\" has no recording";
        assert!(error.starts_with(want), "{error}");
    }
}
