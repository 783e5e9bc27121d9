//! Utterances as JSON lines that read back as the same utterances: exact texts, ids, speakers, times;
//! paths relative to the manifest where the recordings are below it or share a folder with it, absolute
//! where they share nothing but the root.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::{AudioSource, Utterance};

/// A line as it is written; `jsonl::parse` reads it back.
#[derive(Serialize)]
struct Line<'a> {
    audio_filepath: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<f64>,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<&'a str>,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_bytes: Option<u64>,
}

/// Writes the lines of one manifest.
pub struct Writer {
    paths: RelativePaths,
}

impl Writer {
    /// For a manifest that will lie at `manifest`.
    ///
    /// # Errors
    /// When there is no working directory to start from.
    pub fn of(manifest: &Path) -> io::Result<Writer> {
        Ok(Writer { paths: RelativePaths::to(manifest)? })
    }

    /// Writes an utterance as it is.
    ///
    /// # Errors
    /// What `out` answered, and recordings whose names are no Unicode, which JSON cannot hold.
    pub fn write(&mut self, out: &mut impl Write, utterance: &Utterance) -> io::Result<()> {
        self.write_as(out, utterance, utterance.id(), utterance.duration_s())
    }

    /// Writes an utterance with another id and another duration.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn write_as(
        &mut self,
        out: &mut impl Write,
        utterance: &Utterance,
        id: &str,
        duration_s: Option<f64>,
    ) -> io::Result<()> {
        let audio = utterance.audio();
        let member = match &audio {
            AudioSource::File(_) => None,
            AudioSource::Member { name, span, .. } => Some((name.as_str(), *span)),
        };
        let line = Line {
            audio_filepath: self.paths.of(audio.file())?,
            duration: duration_s,
            offset: utterance.offset_s(),
            text: utterance.text(),
            speaker: utterance.speaker(),
            id,
            channel: utterance.channel(),
            member: member.map(|(name, _)| name),
            member_offset: member.map(|(_, span)| span.start),
            member_bytes: member.map(|(_, span)| span.len),
        };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")
    }
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
    use super::*;

    #[test]
    fn paths_are_relative_where_a_folder_is_shared() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["set/x", "other", "set/fixed"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (path, manifest, want) in [
            ("set/a.wav", "set/m.jsonl", "a.wav"),
            ("set/x/a.wav", "set/m.jsonl", "x/a.wav"),
            ("other/a.wav", "set/fixed/m.jsonl", "../../other/a.wav"),
        ] {
            let mut paths = RelativePaths::to(&root.join(manifest)).unwrap();
            assert_eq!(paths.of(&root.join(path)).unwrap(), want);
            assert_eq!(paths.of(&root.join(path)).unwrap(), want, "a folder seen before");
        }
        let mut paths = RelativePaths::to(&root.join("m.jsonl")).unwrap();
        assert_eq!(paths.of(Path::new("/nowhere/a.wav")).unwrap(), "/nowhere/a.wav");
    }
}
