//! Trees like LibriSpeech's: `SPEAKER/CHAPTER/SPEAKER-CHAPTER.trans.txt` with lines of an id and its text,
//! and a recording `ID.flac` (or of another kind) beside it. The tree may be the whole corpus, one set,
//! one speaker or one chapter. Recordings without a line are left out and counted; a line without a
//! recording is an error. <https://www.openslr.org/12>

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::{Builder, Entry, Malformed};
use super::kind::is_audio;
use super::lines::{lines_of, utf8, word_and_rest};
use super::{Fault, Manifest, ManifestError};

/// What the name of a transcript ends with.
const ENDING: &str = ".trans.txt";

/// Folders between the tree that is named and a chapter: corpus, set, speaker, chapter.
const MAX_DEPTH: usize = 4;

const EXPECTED: &str = "each line of a transcript is `ID TEXT`, with a recording ID.flac beside it";

/// What a tree holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// The transcripts, sorted.
    pub transcripts: Vec<PathBuf>,
    /// Folders that cannot be looked into.
    pub faults: Vec<Fault>,
}

/// Looks for transcripts.
pub(super) fn find(directory: &Path) -> Tree {
    let mut tree = Tree::default();
    walk(directory, MAX_DEPTH, &mut tree);
    tree.transcripts.sort();
    tree
}

/// A folder that cannot be read is noted, and its neighbours are read all the same.
fn walk(directory: &Path, depth: usize, tree: &mut Tree) {
    let mut look = || -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            // Asked of the folder, not of each of a million files; links are followed.
            let kind = entry.file_type()?;
            let path = entry.path();
            if entry.file_name().to_string_lossy().ends_with(ENDING) {
                tree.transcripts.push(path);
            } else if depth > 0 && (kind.is_dir() || (kind.is_symlink() && path.is_dir())) {
                walk(&path, depth - 1, tree);
            }
        }
        Ok(())
    };
    if let Err(error) = look() {
        let reason = format!("the folder cannot be read: {error}");
        tree.faults.push(Fault::of_file(directory, reason));
    }
}

pub(super) fn read(directory: &Path, tree: &Tree) -> Result<Arc<Manifest>, ManifestError> {
    let mut builder = Builder::new(directory, EXPECTED);
    tree.faults.iter().cloned().for_each(|fault| builder.fault(fault));
    for transcript in &tree.transcripts {
        if let Err((path, error)) = read_chapter(&mut builder, directory, transcript) {
            builder.fault(Fault::of_file(path, error.to_string()));
        }
    }
    builder.finish(directory)
}

/// The lines of one transcript. An error names the file or folder that cannot be read.
fn read_chapter(
    builder: &mut Builder,
    directory: &Path,
    transcript: &Path,
) -> Result<(), (PathBuf, io::Error)> {
    let text = fs::read(transcript).map_err(|error| (transcript.to_owned(), error))?;
    builder.start_source(transcript);
    let chapter = transcript.parent().unwrap_or(directory);
    let below = chapter.strip_prefix(directory).unwrap_or(chapter);
    let Some(below) = below.to_str() else {
        builder.fault(Fault::of_file(chapter, "the folder's name is not UTF-8; rename it"));
        return Ok(());
    };
    // Only Windows separates otherwise.
    let below = below.replace(std::path::MAIN_SEPARATOR, "/");
    let name = transcript.file_name().unwrap_or_default().to_string_lossy();
    let speaker = name.trim_end_matches(ENDING).split('-').next().unwrap_or_default();
    let mut recordings = recordings(chapter).map_err(|error| (chapter.to_owned(), error))?;
    for (line, bytes) in lines_of(&text) {
        match parse(bytes, &mut recordings) {
            Ok((id, text, name)) => {
                let audio = if below.is_empty() { name } else { format!("{below}/{name}") };
                let entry = Entry {
                    audio: Cow::Owned(audio),
                    text: Cow::Borrowed(text),
                    id: Some(Cow::Borrowed(id)),
                    speaker: Some(Cow::Borrowed(speaker)),
                    ..Entry::default()
                };
                builder.push(line, &entry);
            }
            Err(malformed) => builder.malformed(line, malformed),
        }
    }
    // Sorted, so that the first that is left out is the same on every file system.
    let left: BTreeSet<String> = recordings.into_values().flatten().collect();
    for name in left {
        builder.skip("recording without a line in its transcript", || {
            chapter.join(name).display().to_string()
        });
    }
    Ok(())
}

/// Id, text and the recording's file name, which is taken out of `recordings`.
fn parse<'a>(
    line: &'a [u8],
    recordings: &mut HashMap<String, BTreeSet<String>>,
) -> Result<(&'a str, &'a str, String), Malformed> {
    let (id, text) = word_and_rest(utf8(line)?);
    // Of several (a.flac, a.wav) it is the same one on every file system; the others stay.
    match recordings.get_mut(id).and_then(BTreeSet::pop_first) {
        Some(name) => Ok((id, text, name)),
        None => {
            Err(Malformed::new(format!("id {id:?} has no recording left beside the transcript")))
        }
    }
}

/// File names of recordings by their stems.
fn recordings(chapter: &Path) -> io::Result<HashMap<String, BTreeSet<String>>> {
    let mut names: HashMap<String, BTreeSet<String>> = HashMap::new();
    for entry in fs::read_dir(chapter)? {
        if let Ok(name) = entry?.file_name().into_string()
            && is_audio(&name)
            && let Some((stem, _)) = name.rsplit_once('.')
        {
            names.entry(stem.to_owned()).or_default().insert(name);
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

    #[test]
    fn of_two_recordings_with_one_name_the_first_in_the_alphabet_is_used_and_the_other_counted() {
        let tree = Tree::new(&[
            ("1/2/1-2.trans.txt", "1-2-0 A\n"),
            ("1/2/1-2-0.wav", ""),
            ("1/2/1-2-0.flac", ""),
        ]);
        assert_eq!(tree.facts("")[0].1, AudioSource::File(tree.path("1/2/1-2-0.flac")));
        let manifest = super::super::read(&tree.path("")).unwrap();
        assert!(manifest.skipped()[0].first.ends_with("1-2-0.wav"));
    }

    /// The name is too long for the system: a folder that even root cannot read.
    #[cfg(unix)]
    #[test]
    fn a_folder_that_cannot_be_read_is_named_and_hides_no_other() {
        let tree = tree();
        // Each link leads back here, to a path that has room for transcripts but not for a long name.
        let here = "l".repeat(120);
        std::os::unix::fs::symlink(".", tree.path(&here)).unwrap();
        let mut root = tree.path("");
        while root.as_os_str().len() + 121 + 12 <= 4_030 {
            root.push(&here);
        }
        root.push("LibriSpeech");
        let long = "x".repeat(255);
        std::fs::create_dir(tree.path(&format!("LibriSpeech/{long}"))).unwrap();
        let error = super::super::read(&root).err().unwrap().to_string();
        let want = format!("{long}: the folder cannot be read: File name too long");
        assert!(error.contains(&want), "{error}");
    }
}
