//! Tables: Common Voice's TSV (`path`, `sentence`, `client_id`; recordings in `clips/`), CSV and TSV with a
//! header of the names in use, and LJSpeech's `metadata.csv` (`id|text|normalised text`, no header;
//! recordings in `wavs/`). CSV is quoted as in RFC 4180; TSV and LJSpeech are not quoted at all.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use csv::{ByteRecord, ReaderBuilder};

use super::build::{Builder, Entry, Malformed};
use super::json::{AUDIO, Key, TEXT};
use super::kind::is_audio;
use super::lines;
use super::quotes::Watched;
use super::{Manifest, ManifestError};
use crate::wording::counted;

const DURATION: &[&str] = &["duration", "duration_s"];
const OFFSET: &[&str] = &["offset", "start", "offset_s"];
const SPEAKER: &[&str] = &["speaker", "spk_id", "speaker_id", "client_id"];
const ID: &[&str] = &["id", "utt_id", "utterance_id"];

const EXPECTED: &str = "a row has as many fields as the header, a column for the recording (such as `path`) and one for the text (such as `text` or `sentence`)";
const EXPECTED_LJSPEECH: &str =
    "each line is `ID|TEXT` or `ID|TEXT|NORMALISED TEXT`, with a recording wavs/ID.wav";

/// How fields are set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Comma,
    Tab,
}

/// Where in a row each field is.
#[derive(Debug, PartialEq)]
pub(super) struct Columns {
    audio: usize,
    text: usize,
    duration: Option<usize>,
    offset: Option<usize>,
    speaker: Option<usize>,
    id: Option<usize>,
    len: usize,
}

impl Columns {
    /// `None` if the line is no header with a recording and a text.
    pub fn tell<'a>(header: impl Iterator<Item = &'a str>) -> Option<Columns> {
        let names: Vec<String> =
            header.map(|name| name.trim_start_matches('\u{feff}').trim().to_lowercase()).collect();
        // The first name of the list that is there counts, not the first column.
        let find =
            |known: &[&str]| known.iter().find_map(|name| names.iter().position(|n| n == name));
        let required = |(name, others): Key| find(&[name]).or_else(|| find(others));
        Some(Columns {
            audio: required(AUDIO)?,
            text: required(TEXT)?,
            duration: find(DURATION),
            offset: find(OFFSET),
            speaker: find(SPEAKER),
            id: find(ID),
            len: names.len(),
        })
    }
}

fn reader(separator: Separator, input: impl Read) -> csv::Reader<impl Read> {
    ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(if separator == Separator::Tab { b'\t' } else { b',' })
        .quoting(separator == Separator::Comma)
        .from_reader(input)
}

/// The header of a table that starts so; `None` if it is none.
pub(super) fn columns(separator: Separator, start: &str) -> Option<Columns> {
    let mut record = csv::StringRecord::new();
    match reader(separator, start.as_bytes()).read_record(&mut record) {
        Ok(true) => Columns::tell(record.iter()),
        _ => None,
    }
}

/// What keeps the first line of a table from being a header.
pub(super) fn why_no_header(separator: Separator, first: &str) -> String {
    let (separator, example) = match separator {
        Separator::Comma => (',', "path,text"),
        Separator::Tab => ('\t', "path<TAB>text"),
    };
    for other in [',', ';', '\t', '|'] {
        if other != separator && Columns::tell(first.split(other)).is_some() {
            return format!(
                "its fields are set apart by {other:?}; expected commas in a .csv and tabs in a .tsv"
            );
        }
    }
    let names: Vec<&str> = first.split(separator).map(str::trim).collect();
    let has = |(key, others): Key| {
        names.iter().any(|name| {
            let name = name.to_lowercase();
            name == key || others.contains(&&*name)
        })
    };
    match (has(AUDIO), has(TEXT)) {
        (true, _) => format!("none of its columns is called \"text\": its header is {names:?}"),
        (false, true) => format!("none of its columns is called \"path\": its header is {names:?}"),
        (false, false) => format!(
            "its first line {names:?} is no header; put the columns' names above it, such as {example}"
        ),
    }
}

pub(super) fn read(path: &Path, separator: Separator) -> Result<Arc<Manifest>, ManifestError> {
    let failed = |source: io::Error| ManifestError::Read { path: path.into(), source };
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut builder = Builder::new(folder, EXPECTED);
    builder.start_source(path);
    let durations_s = clip_durations(folder)?;
    let is_common_voice = folder.join("clips").is_dir();
    let quotes = RefCell::default();
    let watched = Watched {
        input: lines::open(path).map_err(failed)?,
        quotes: (separator == Separator::Comma).then_some(&quotes),
    };
    let mut rows = reader(separator, watched);
    let mut record = ByteRecord::new();
    let mut columns = None;
    loop {
        match rows.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Err(failed(io::Error::other(error))),
        }
        let line = record.position().map_or(0, csv::Position::line) as usize;
        let Some(columns) = &columns else {
            columns = Columns::tell(
                record.iter().map(|name| std::str::from_utf8(name).unwrap_or_default()),
            );
            if columns.is_none() {
                builder.malformed(line, Malformed::new("the header names no recording or no text"));
                break;
            }
            continue;
        };
        match row(&record, columns) {
            Ok(mut entry) => {
                if is_common_voice && !entry.audio.contains('/') && !entry.audio.is_empty() {
                    entry.duration_s =
                        entry.duration_s.or(durations_s.get(entry.audio.as_ref()).copied());
                    entry.audio = Cow::Owned(format!("clips/{}", entry.audio));
                }
                builder.push(line, &entry);
            }
            Err(malformed) => builder.malformed(line, malformed),
        }
    }
    drop(rows);
    for line in quotes.into_inner().finish() {
        let reason = "a double quote opens a field here and is not closed at its end; close it, and write each quote inside a field twice";
        builder.malformed(line, Malformed::new(reason));
    }
    builder.finish(path)
}

fn row<'a>(record: &'a ByteRecord, columns: &Columns) -> Result<Entry<'a>, Malformed> {
    if record.len() != columns.len {
        let way_out = match record.len() > columns.len {
            true => ": a text that holds a separator has to stand in double quotes, in a .csv",
            false => "",
        };
        return Err(Malformed::new(format!(
            "{} where the header has {}{way_out}",
            counted(record.len(), "field"),
            columns.len
        )));
    }
    let field = |at: usize| lines::utf8(&record[at]);
    let filled = |at: Option<usize>| match at {
        Some(at) => field(at).map(|text| Some(text.trim()).filter(|text| !text.is_empty())),
        None => Ok(None),
    };
    let seconds = |at: Option<usize>, name: &str| -> Result<Option<f64>, Malformed> {
        let Some(text) = filled(at)? else { return Ok(None) };
        let seconds = text.parse().map(Some);
        seconds.map_err(|_| Malformed::new(format!("\"{name}\" is {text:?}, expected seconds")))
    };
    Ok(Entry {
        audio: Cow::Borrowed(field(columns.audio)?.trim()),
        text: Cow::Borrowed(field(columns.text)?),
        id: filled(columns.id)?.map(Cow::Borrowed),
        duration_s: seconds(columns.duration, "duration")?,
        offset_s: seconds(columns.offset, "offset")?,
        speaker: filled(columns.speaker)?.map(Cow::Borrowed),
        ..Entry::default()
    })
}

/// Common Voice's `clip_durations.tsv` (`clip`, `duration[ms]`), if there is one: a name and its seconds.
fn clip_durations(folder: &Path) -> Result<HashMap<String, f64>, ManifestError> {
    let path = folder.join("clip_durations.tsv");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(source) => return Err(ManifestError::Read { path, source }),
    };
    let rows = text.lines().skip(1).filter_map(|line| {
        let (clip, ms) = line.split_once('\t')?;
        let ms: f64 = ms.trim().parse().ok().filter(|ms| *ms > 0.0)?;
        Some((clip.to_owned(), ms / 1e3))
    });
    Ok(rows.collect())
}

/// Reads LJSpeech's `metadata.csv`.
pub(super) fn read_ljspeech(path: &Path) -> Result<Arc<Manifest>, ManifestError> {
    let mut builder = Builder::new(path.parent().unwrap_or(Path::new("")), EXPECTED_LJSPEECH);
    lines::read_into(&mut builder, path, |bytes| {
        let line = lines::utf8(bytes)?.trim_end_matches('\r');
        let fields: Vec<&str> = line.split('|').collect();
        let (id, text) = match fields.as_slice() {
            [id, text] => (id.trim(), *text),
            // The third spells out numbers and abbreviations, which is what is heard.
            [id, text, normalised] => {
                (id.trim(), if normalised.trim().is_empty() { text } else { *normalised })
            }
            _ => {
                let found = counted(fields.len(), "field");
                return Err(Malformed::new(format!("{found}, expected 2 or 3")));
            }
        };
        let name = if is_audio(id) { id.to_owned() } else { format!("{id}.wav") };
        Ok(lines::Parsed::Utterance(Entry {
            audio: Cow::Owned(format!("wavs/{name}")),
            text: Cow::Borrowed(text),
            id: Some(Cow::Borrowed(id)),
            ..Entry::default()
        }))
    })?;
    builder.finish(path)
}

#[cfg(test)]
mod tests {
    use super::super::AudioSource;
    use super::super::tests::Tree;
    use super::*;

    #[test]
    fn common_voice_is_not_quoted_and_its_clips_have_durations() {
        let tsv = "client_id\tpath\tsentence\tup_votes\nann\ta.mp3\t\"Hi,\" she said.\t2\nben\tb.mp3\tit's \"so\t0\r\n";
        let tree = Tree::new(&[
            ("train.tsv", tsv),
            ("clips/a.mp3", ""),
            ("clip_durations.tsv", "clip\tduration[ms]\na.mp3\t1500\n"),
        ]);
        let file = |name| AudioSource::File(tree.path(name));
        let want = [
            (
                "a".into(),
                file("clips/a.mp3"),
                "\"Hi,\" she said.".into(),
                Some(1.5),
                None,
                Some("ann".into()),
                None,
            ),
            (
                "b".into(),
                file("clips/b.mp3"),
                "it's \"so".into(),
                None,
                None,
                Some("ben".into()),
                None,
            ),
        ];
        assert_eq!(tree.facts("train.tsv"), want);
    }

    #[test]
    fn csv_is_quoted_and_its_columns_go_by_name() {
        let csv = "\u{feff}ID,duration,Wav,spk_id,wrd,start\nu1,2.5,x/a.wav,s1,\"one, \"\"two\"\"\nthree\",0.25\nu2,,b.wav,,four,\n";
        let tree = Tree::new(&[("train.csv", csv)]);
        let file = |name| AudioSource::File(tree.path(name));
        let want = [
            (
                "u1".into(),
                file("x/a.wav"),
                "one, \"two\"\nthree".into(),
                Some(2.5),
                Some(0.25),
                Some("s1".into()),
                None,
            ),
            ("u2".into(), file("b.wav"), "four".into(), None, None, None, None),
        ];
        assert_eq!(tree.facts("train.csv"), want);
        let second = read(&tree.path("train.csv"), Separator::Comma).unwrap().utterances().nth(1);
        assert_eq!(second.unwrap().line(), 4, "a field may hold a line end");
    }

    #[test]
    fn a_quote_that_is_not_closed_swallows_no_row_in_silence() {
        let good = "b.wav,\"say \"\"b\"\"\"\n";
        for (text, line) in [
            (format!("path,text\na.wav,\"x\n{}", good.repeat(40)), 2),
            (format!("path,text\n{good}a.wav,\"x\nc.wav,y\n"), 3),
            (format!("path,text\n{good}{good}a.wav,\"he said \"hi\" to me\"\n"), 4),
        ] {
            let tree = Tree::new(&[("m.csv", &text)]);
            let error = tree.error("m.csv");
            let want = format!("m.csv:{line}: a double quote opens a field here and is not closed");
            assert!(error.contains(&want), "{error}");
        }
        let tree = Tree::new(&[("m.csv", &format!("path,text\n{good}a.wav,\"x\ny\"\n"))]);
        assert_eq!(tree.facts("m.csv")[1].2, "x\ny");
        let inch = Tree::new(&[("m.csv", "path,text\na.wav,a 5\" pipe\nb.wav,b\n")]);
        assert_eq!(inch.facts("m.csv").len(), 2);
    }

    #[test]
    fn ljspeech_takes_the_normalised_text() {
        let tree = Tree::new(&[
            ("metadata.csv", "LJ1|In 1999|In nineteen ninety-nine\nLJ2|\"plain|\nLJ3|two fields\n"),
            ("wavs/LJ1.wav", ""),
        ]);
        for name in ["", "metadata.csv"] {
            let facts = tree.facts(name);
            let texts: Vec<&str> = facts.iter().map(|facts| facts.2.as_str()).collect();
            assert_eq!(texts, ["In nineteen ninety-nine", "\"plain", "two fields"]);
            assert_eq!(facts[1].1, AudioSource::File(tree.path("wavs/LJ2.wav")));
            assert_eq!(facts[1].0, "LJ2");
        }
        tree.write("metadata.csv", b"LJ1|a\nLJ2\n");
        assert!(tree.error("metadata.csv").starts_with("metadata.csv:2: 1 field, expected 2 or 3"));
    }

    #[test]
    fn rows_that_are_wrong_are_named_by_their_line() {
        for (row, want) in [
            ("a.wav,one", "m.csv:3: 2 fields where the header has 3"),
            ("a.wav,one,x", "m.csv:3: \"duration\" is \"x\", expected seconds"),
            ("a.wav,one,-2", "m.csv:3: \"duration\" is -2"),
            (",one,1", "m.csv:3: the name of its recording is empty"),
        ] {
            let tree = Tree::new(&[("m.csv", &format!("path,text,duration\nb.wav,x,1\n{row}\n"))]);
            let error = tree.error("m.csv");
            assert!(error.starts_with(want) && error.contains("a row has"), "{error}");
        }
        let tree = Tree::new(&[]);
        tree.write("m.csv", b"path,text\na.wav,\xff\n");
        assert!(tree.error("m.csv").starts_with("m.csv:2:1: the line is not UTF-8"));
    }
}
