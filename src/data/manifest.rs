//! JSON-lines manifests, as NeMo writes them: one object a line with `audio_filepath` (relative to the
//! manifest) and `text`, and optionally `duration`, `offset`, `speaker`, `id`. Other keys are other
//! tools' and are ignored. A byte-order mark, CRLF and blank lines are accepted; a line that is wrong,
//! an id used twice and a manifest without utterances are errors with their place.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Utterance {
    /// Unique in its manifest, without blanks or parentheses when it was made here.
    pub id: String,
    /// The recording.
    pub audio_path: PathBuf,
    /// The transcript as written.
    pub text: String,
    /// The duration that the manifest claims.
    pub duration_s: Option<f64>,
    /// Where the utterance starts in its recording; without one it is the whole recording.
    pub offset_s: Option<f64>,
    /// Who speaks.
    pub speaker: Option<String>,
    /// The manifest.
    pub manifest: Arc<Path>,
    /// The line in it, counted from 1.
    pub line: usize,
}

impl Utterance {
    /// `path:line`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.manifest.display(), self.line)
    }
}

/// What is wrong with a manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be read.
    #[error("{}: cannot read the manifest: {source}", path.display())]
    Read {
        /// The manifest.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A line is no object with the right keys.
    #[error("{}:{line}:{column}: {reason}; each line is a JSON object with \"audio_filepath\" and \"text\", and optionally \"duration\", \"offset\", \"speaker\" and \"id\"", path.display())]
    Line {
        /// The manifest.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// In bytes, counted from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// Two lines have one id.
    #[error("{}:{line}: id {id:?} is also on line {first}; give each utterance its own", path.display())]
    DuplicateId {
        /// The manifest.
        path: PathBuf,
        /// The second of the lines.
        line: usize,
        /// The first.
        first: usize,
        /// The id.
        id: String,
    },
    /// There is no utterance.
    #[error("{}: the manifest holds no utterances", path.display())]
    Empty {
        /// The manifest.
        path: PathBuf,
    },
}

#[derive(Deserialize)]
struct Line {
    audio_filepath: PathBuf,
    text: String,
    duration: Option<f64>,
    offset: Option<f64>,
    speaker: Option<Name>,
    id: Option<Name>,
}

/// Some tools write speakers and ids as numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Number(i64),
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        match name {
            Name::Text(text) => text,
            Name::Number(number) => number.to_string(),
        }
    }
}

/// Reads several manifests, one after the other. Ids need only differ within one manifest.
///
/// # Errors
/// See [`ManifestError`].
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Utterance>, ManifestError> {
    let mut utterances = Vec::new();
    for path in paths {
        utterances.extend(read(path)?);
    }
    Ok(utterances)
}

/// Reads one manifest.
///
/// # Errors
/// See [`ManifestError`].
pub fn read(path: &Path) -> Result<Vec<Utterance>, ManifestError> {
    let bytes =
        std::fs::read(path).map_err(|source| ManifestError::Read { path: path.into(), source })?;
    parse(&bytes, path)
}

/// Reads the content of a manifest; `path` is where relative recordings start.
fn parse(bytes: &[u8], path: &Path) -> Result<Vec<Utterance>, ManifestError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let manifest: Arc<Path> = path.into();
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut utterances = Vec::new();
    let mut named = Vec::new();
    for (at, bytes) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = at + 1;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let fail = |column: usize, reason: String| ManifestError::Line {
            path: path.into(),
            line,
            column,
            reason,
        };
        let parsed: Line = serde_json::from_slice(bytes).map_err(|error| {
            let text = error.to_string();
            // serde_json counts lines too, and here there is only ever one.
            let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
            fail(error.column().max(1), reason.to_owned())
        })?;
        if parsed.audio_filepath.as_os_str().is_empty() {
            return Err(fail(1, "\"audio_filepath\" is empty".into()));
        }
        if let Some(seconds) = parsed.duration.filter(|d| !(d.is_finite() && *d > 0.0)) {
            return Err(fail(1, format!("\"duration\" is {seconds}, expected seconds above 0")));
        }
        if let Some(seconds) = parsed.offset.filter(|o| !(o.is_finite() && *o >= 0.0)) {
            return Err(fail(1, format!("\"offset\" is {seconds}, expected seconds, 0 or more")));
        }
        let id: Option<String> = parsed.id.map(String::from);
        if id.as_ref().is_some_and(|id| id.trim().is_empty()) {
            return Err(fail(1, "\"id\" is empty".into()));
        }
        named.push(id.is_some());
        utterances.push(Utterance {
            id: id.unwrap_or_else(|| default_id(&parsed.audio_filepath, parsed.offset)),
            audio_path: folder.join(&parsed.audio_filepath),
            text: parsed.text,
            duration_s: parsed.duration,
            offset_s: parsed.offset,
            speaker: parsed.speaker.map(String::from),
            manifest: Arc::clone(&manifest),
            line,
        });
    }
    if utterances.is_empty() {
        return Err(ManifestError::Empty { path: path.into() });
    }
    settle_ids(&mut utterances, &named, path)?;
    Ok(utterances)
}

/// The recording's name, in characters that every scoring tool accepts, and the offset.
fn default_id(audio: &Path, offset_s: Option<f64>) -> String {
    let stem = audio.file_stem().unwrap_or(audio.as_os_str()).to_string_lossy();
    let clean = |c: char| {
        if c.is_whitespace() || matches!(c, '(' | ')' | ',') { '_' } else { c }
    };
    let stem: String = stem.chars().map(clean).collect();
    match offset_s {
        Some(offset_s) => format!("{stem}-{:07}", (offset_s * 1e3).round() as u64),
        None => stem,
    }
}

/// Refuses ids given twice; ids made here that collide get their line number.
fn settle_ids(
    utterances: &mut [Utterance],
    named: &[bool],
    path: &Path,
) -> Result<(), ManifestError> {
    let mut lines: HashMap<String, usize> = HashMap::new();
    for (utterance, _) in utterances.iter().zip(named).filter(|(_, named)| **named) {
        if let Some(first) = lines.insert(utterance.id.clone(), utterance.line) {
            let (line, id) = (utterance.line, utterance.id.clone());
            return Err(ManifestError::DuplicateId { path: path.into(), line, first, id });
        }
    }
    for (utterance, _) in utterances.iter_mut().zip(named).filter(|(_, named)| !**named) {
        while lines.contains_key(&utterance.id) {
            utterance.id = format!("{}-line{}", utterance.id, utterance.line);
        }
        lines.insert(utterance.id.clone(), utterance.line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Vec<Utterance>, ManifestError> {
        parse(text.as_bytes(), Path::new("corpus/train.jsonl"))
    }

    #[test]
    fn a_line_of_another_tool_is_read_and_paths_start_at_the_manifest() {
        let text = "\u{feff}{\"audio_filepath\": \"audio/a b(1).wav\", \"text\": \"one\", \"duration\": 1.5, \"speaker\": 26, \"lang\": [\"en\"]}\r\n\r\n  \n{\"audio_filepath\":\"/abs/b.flac\",\"text\":\"\",\"offset\":2.25,\"id\":\"x\"}";
        let utterances = parse_text(text).unwrap();
        let first = &utterances[0];
        assert_eq!(first.audio_path, Path::new("corpus/audio/a b(1).wav"));
        assert_eq!((first.id.as_str(), first.line, first.duration_s), ("a_b_1_", 1, Some(1.5)));
        assert_eq!(first.speaker.as_deref(), Some("26"));
        let second = &utterances[1];
        assert_eq!(second.audio_path, Path::new("/abs/b.flac"));
        assert_eq!((second.id.as_str(), second.line, second.offset_s), ("x", 4, Some(2.25)));
        assert_eq!(second.place(), "corpus/train.jsonl:4");
    }

    #[test]
    fn a_malformed_line_names_path_line_column_and_the_keys() {
        let good = "{\"audio_filepath\":\"a.wav\",\"text\":\"a\"}\n";
        for (bad, want) in [
            ("{\"audio_filepath\":\"a.wav\",\"text\":}", "train.jsonl:2:34: expected value"),
            ("{\"audio_filepath\":\"a.wav\"}", "missing field `text`"),
            ("{\"text\":\"a\"}", "missing field `audio_filepath`"),
            ("{\"audio_filepath\":\"a.wav\",\"text\":3}", "invalid type: integer"),
            ("hello", "train.jsonl:2:1:"),
            ("[1]", "train.jsonl:2:"),
            ("{\"audio_filepath\":\"a.wav\",\"text\":\"a\"", "train.jsonl:2:"),
            ("{\"audio_filepath\":\"a.wav\",\"text\":\"a\"} x", "trailing characters"),
            ("{\"audio_filepath\":\"\",\"text\":\"a\"}", "\"audio_filepath\" is empty"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"duration\":0}", "\"duration\" is 0"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"duration\":-1.5}", "\"duration\" is -1.5"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"duration\":NaN}", "train.jsonl:2:"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"duration\":1e999}", "train.jsonl:2:"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"offset\":-1}", "\"offset\" is -1"),
        ] {
            let error = parse_text(&format!("{good}{bad}\n")).unwrap_err().to_string();
            assert!(
                error.starts_with("corpus/train.jsonl:2:") && error.contains(want),
                "{bad}: {error}"
            );
            assert!(error.contains("\"speaker\"") && !error.contains(" at line "), "{error}");
        }
        let error =
            parse(b"{\"audio_filepath\":\"\xff\",\"text\":\"\"}", Path::new("m")).unwrap_err();
        assert!(error.to_string().starts_with("m:1:"), "{error}");
    }

    #[test]
    fn an_id_given_twice_names_both_lines() {
        let line =
            |id: &str| format!("{{\"audio_filepath\":\"a.wav\",\"text\":\"a\",\"id\":\"{id}\"}}\n");
        let error = parse_text(&[line("u"), line("v"), line("u")].concat()).unwrap_err();
        assert!(matches!(error, ManifestError::DuplicateId { line: 3, first: 1, .. }), "{error}");
    }

    #[test]
    fn ids_made_from_names_are_unique_and_stable() {
        let line = |path: &str| format!("{{\"audio_filepath\":\"{path}\",\"text\":\"a\"}}\n");
        let text = [line("x/a.wav"), line("y/a.wav"), line("y/b.wav")].concat();
        let text = text + "{\"audio_filepath\":\"b.wav\",\"text\":\"\",\"id\":\"b\"}";
        let ids: Vec<String> = parse_text(&text).unwrap().into_iter().map(|u| u.id).collect();
        assert_eq!(ids, ["a", "a-line2", "b-line3", "b"]);
    }

    #[test]
    fn no_manifest_and_no_utterance_are_different_errors() {
        for text in ["", "\n\r\n", "\u{feff}"] {
            assert!(matches!(parse_text(text), Err(ManifestError::Empty { .. })));
        }
        let error = read_all(&[PathBuf::from("/nonexistent/m.jsonl")]).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/m.jsonl"), "{error}");
    }
}
