//! Tells what a manifest is by what is in it: a directory by the files it holds, a file by its first
//! bytes and its first line. Names only decide where contents cannot.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::ManifestError;
use super::shar::SharShard;
use super::table::{Separator, columns, why_no_header};
use super::{librispeech, lines, pattern, tar};
use crate::audio;

/// What audio files are called.
const AUDIO_EXTENSIONS: &[&str] = &[
    "wav", "flac", "ogg", "oga", "opus", "mp3", "m4a", "aac", "aiff", "aif", "caf", "au", "sph",
    "webm", "wma", "mp4",
];

/// As much of a file as its kind may need.
const START_LEN: u64 = 1 << 20;

const KINDS: &str = "expected JSON lines of NeMo or Lhotse, a CSV or TSV table with a header, LJSpeech's metadata.csv, a tar file, several by a pattern such as audio_{0..127}.tar, or a directory of Kaldi, LibriSpeech, LJSpeech, Lhotse Shar or tar files";

/// A way to list utterances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Jsonl(Vec<PathBuf>),
    NemoTarred(Vec<PathBuf>),
    Lhotse,
    Shar(Vec<SharShard>),
    Kaldi,
    Table(Separator),
    LjSpeech(PathBuf),
    LibriSpeech(librispeech::Tree),
    WebDataset(Vec<PathBuf>),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Jsonl(_) => "JSON lines",
            Kind::NemoTarred(_) => "NeMo tarred data set",
            Kind::Lhotse => "Lhotse cuts",
            Kind::Shar(_) => "Lhotse Shar",
            Kind::Kaldi => "Kaldi data directory",
            Kind::Table(Separator::Comma) => "CSV table",
            Kind::Table(Separator::Tab) => "TSV table",
            Kind::LjSpeech(_) => "LJSpeech",
            Kind::LibriSpeech(_) => "LibriSpeech tree",
            Kind::WebDataset(_) => "WebDataset shards",
        })
    }
}

/// Whether a file's name is that of a recording.
pub(super) fn is_audio(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| AUDIO_EXTENSIONS.contains(&extension.as_str()))
}

/// The tar files of a directory, sorted.
pub(super) fn tars_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut tars = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("tar")) && path.is_file() {
            tars.push(path);
        }
    }
    tars.sort();
    Ok(tars)
}

/// The kind of the manifest at `path`.
///
/// # Errors
/// [`ManifestError::Read`], or [`ManifestError::Kind`] with what is there instead.
pub(super) fn tell(path: &Path) -> Result<Kind, ManifestError> {
    let failed = |source| ManifestError::Read { path: path.into(), source };
    let refused = |reason| ManifestError::Kind { path: path.into(), reason };
    if let Some(files) = pattern::expand(path).map_err(refused)? {
        return of_pattern(path, files);
    }
    let told = if path.is_dir() {
        directory(path).map_err(failed)?
    } else {
        let mut start = Vec::new();
        let reader = lines::open(path).map_err(failed)?;
        reader.take(START_LEN).read_to_end(&mut start).map_err(failed)?;
        file(path, &start)
    };
    told.map_err(refused)
}

/// The files of a pattern are of one kind, that of the first.
fn of_pattern(path: &Path, files: Vec<PathBuf>) -> Result<Kind, ManifestError> {
    let refused = |reason| ManifestError::Kind { path: path.into(), reason };
    let missing: Vec<&PathBuf> = files.iter().filter(|file| !file.is_file()).collect();
    if let Some(first) = missing.first() {
        let (count, total) = (missing.len(), files.len());
        let first = first.display();
        return Err(refused(format!(
            "{count} of its {total} files are not there, such as {first}"
        )));
    }
    let first = files.first().map(|first| tell(first)).transpose()?;
    match first {
        Some(Kind::WebDataset(_)) => Ok(Kind::WebDataset(files)),
        Some(Kind::NemoTarred(_)) => Ok(Kind::NemoTarred(files)),
        Some(Kind::Jsonl(_)) => Ok(Kind::Jsonl(files)),
        first => Err(refused(format!(
            "a pattern of files of kind {}, and only tar files and JSON lines come in several; name them one by one",
            first.map_or("none".into(), |kind| kind.to_string())
        ))),
    }
}

fn directory(path: &Path) -> io::Result<Result<Kind, String>> {
    if path.join("wav.scp").is_file() {
        if path.join("text").is_file() {
            return Ok(Ok(Kind::Kaldi));
        }
        return Ok(Err("a Kaldi data directory (it has wav.scp) without `text`".into()));
    }
    let tarred = path.join("tarred_audio_manifest.json");
    if tarred.is_file() {
        return Ok(Ok(Kind::NemoTarred(vec![tarred])));
    }
    let table = path.join("metadata.csv");
    if table.is_file() && path.join("wavs").is_dir() {
        return Ok(Ok(Kind::LjSpeech(table)));
    }
    let (mut tables, mut compressed, mut shar) = (Vec::new(), Vec::new(), Vec::new());
    let mut recording = None;
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        shar.extend(SharShard::of(path, &name));
        if [".tar.gz", ".tgz"].iter().any(|end| name.ends_with(end)) {
            compressed.push(name);
        } else if [".tsv", ".csv", ".jsonl", ".json", ".jsonl.gz"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            tables.push(name);
        } else if recording.is_none() && is_audio(&name) {
            recording = Some(name);
        }
    }
    if !shar.is_empty() {
        shar.sort_by(|a, b| a.cuts.cmp(&b.cuts));
        return Ok(Ok(Kind::Shar(shar)));
    }
    let tars = tars_in(path)?;
    if !tars.is_empty() {
        return Ok(Ok(Kind::WebDataset(tars)));
    }
    let tree = librispeech::find(path);
    if !tree.transcripts.is_empty() {
        return Ok(Ok(Kind::LibriSpeech(tree)));
    }
    if let Some(first) = compressed.first() {
        return Ok(Err(format!(
            "a directory of compressed tar files, whose members cannot be reached one by one; decompress them with `gunzip`, such as {first}"
        )));
    }
    // Common Voice and others: which of several is meant is the user's to say.
    if !tables.is_empty() {
        tables.sort();
        tables.truncate(8);
        return Ok(Err(format!(
            "a directory; name one of its tables, such as {}",
            tables.join(", ")
        )));
    }
    if let Some(recording) = recording {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".jsonl");
        let hint = match Path::new(&beside).is_file() {
            true => format!("; did you mean {}?", Path::new(&beside).display()),
            false => format!("; {KINDS}"),
        };
        return Ok(Err(format!(
            "a directory of recordings ({recording}) without a list of them{hint}"
        )));
    }
    let unreadable = tree.faults.first().map(|fault| format!(" ({fault})")).unwrap_or_default();
    Ok(Err(format!("a directory of no kind known here{unreadable}; {KINDS}")))
}

/// `start` is the first MiB, decompressed.
fn file(path: &Path, start: &[u8]) -> Result<Kind, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if tar::is_header(start) {
        if name.ends_with("gz") {
            return Err("a compressed tar file, whose members cannot be reached one by one; decompress it with `gunzip` (recordings hardly shrink by it)".into());
        }
        return Ok(Kind::WebDataset(vec![path.into()]));
    }
    refuse_recording(start, &serde_json::json!({"audio_filepath": name, "text": "what is said"}))?;
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let first =
        start.split(|byte| *byte == b'\n').find(|line| !line.iter().all(u8::is_ascii_whitespace));
    let Some(first) = first.map(<[u8]>::trim_ascii) else {
        // Empty: the reader of JSON lines says so.
        return Ok(Kind::Jsonl(vec![path.into()]));
    };
    if first == b"{" {
        return Err(
            "one JSON object over several lines; write one object a line, such as by `jq -c .`"
                .into(),
        );
    }
    if first.starts_with(b"{") {
        return json(path, first);
    }
    let text = String::from_utf8_lossy(start);
    let first = String::from_utf8_lossy(first);
    for separator in [Separator::Tab, Separator::Comma] {
        if columns(separator, &text).is_some() {
            return Ok(Kind::Table(separator));
        }
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    if first.contains('|') && folder.join("wavs").is_dir() {
        return Ok(Kind::LjSpeech(path.into()));
    }
    let is_json_by_name = [".jsonl", ".json", ".jsonl.gz", ".json.gz", ".manifest"]
        .iter()
        .any(|end| name.ends_with(end));
    if is_json_by_name {
        // Of a long one only the start is here.
        let rest = text.trim_start().strip_prefix('[').map(str::trim_start);
        if rest.is_some_and(|rest| rest.starts_with('{')) {
            return Err("one JSON array; write one object a line, such as by `jq -c .[]`".into());
        }
        return Ok(Kind::Jsonl(vec![path.into()]));
    }
    if matches!(&*name, "wav.scp" | "text" | "segments" | "utt2spk" | "utt2dur") {
        return Err("a file of a Kaldi data directory; name the directory".into());
    }
    for (end, separator) in [(".csv", Separator::Comma), (".tsv", Separator::Tab)] {
        if name.ends_with(end) || name.ends_with(&format!("{end}.gz")) {
            return Err(format!("a table, but {}", why_no_header(separator, &first)));
        }
    }
    let shown: String = first.chars().take(60).collect();
    Err(format!("of no kind known here: it starts with {shown:?}; {KINDS}"))
}

/// Refuses a recording in the place of a list of recordings. `line` is what a list needs of it.
pub(crate) fn refuse_recording(start: &[u8], line: &serde_json::Value) -> Result<(), String> {
    if !audio::is_recording(start) {
        return Ok(());
    }
    Err(format!(
        "a recording, not a list of recordings; write a file beside it with the line {line} and name that"
    ))
}

/// Lhotse's objects have keys that no other tool writes.
fn json(path: &Path, first: &[u8]) -> Result<Kind, String> {
    let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(first) else {
        // Malformed: the reader says where.
        return Ok(Kind::Jsonl(vec![path.into()]));
    };
    let has = |key: &str| object.contains_key(key);
    let is_cut =
        object.get("type").and_then(|kind| kind.as_str()).is_some_and(|kind| kind.ends_with("Cut"));
    if is_cut || has("supervisions") {
        return Ok(Kind::Lhotse);
    }
    if has("recording_id") || (has("sources") && has("sampling_rate")) {
        return Err("Lhotse recordings or supervisions alone; make cuts with `lhotse cut simple -r RECORDINGS -s SUPERVISIONS CUTS.jsonl`".into());
    }
    if object.get("shard_id").is_some_and(serde_json::Value::is_u64) && !has("member") {
        return Ok(Kind::NemoTarred(vec![path.into()]));
    }
    Ok(Kind::Jsonl(vec![path.into()]))
}
