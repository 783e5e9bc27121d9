//! JSON lines as NeMo writes them: one object a line with `audio_filepath` (relative to the manifest)
//! and `text`, and optionally `duration`, `offset`, `speaker`, `id`, `channel`. A recording inside a tar
//! file has `member` (its name), `member_offset` and `member_bytes` as well, and `audio_filepath` names the
//! tar file. Other keys are other tools' and are ignored.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::build::{Builder, Entry, Malformed};
use super::json::{AUDIO, TEXT, from_json};
use super::lines::{self, Parsed, ParsedLine};
use super::{Manifest, ManifestError, Span};

pub(super) const EXPECTED: &str = "each line is a JSON object with \"audio_filepath\" and \"text\", and optionally \"duration\", \"offset\", \"speaker\" and \"id\"";

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    audio_filepath: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    duration: Option<f64>,
    offset: Option<f64>,
    #[serde(borrow)]
    speaker: Option<Name<'a>>,
    #[serde(borrow)]
    id: Option<Name<'a>>,
    #[serde(default)]
    channel: Index,
    #[serde(default)]
    shard_id: Index,
    #[serde(borrow)]
    member: Option<Name<'a>>,
    member_offset: Option<u64>,
    member_bytes: Option<u64>,
}

/// A text, or a number: some tools write speakers and ids so.
pub(super) struct Name<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a whole number")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(number.to_string())))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(number.to_string())))
            }
        }
        deserializer.deserialize_any(NameVisitor)
    }
}

/// A number counted from 0 where there is one. Tools also write lists and words under such keys: these
/// say nothing here.
#[derive(Default)]
pub(super) struct Index(pub Option<u64>);

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IndexVisitor;
        impl<'de> Visitor<'de> for IndexVisitor {
            type Value = Index;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Index, E> {
                Ok(Index(Some(number)))
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Index, E> {
                Ok(Index(None))
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Index, E> {
                Ok(Index(None))
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Index, E> {
                Ok(Index(None))
            }

            fn visit_str<E: de::Error>(self, _: &str) -> Result<Index, E> {
                Ok(Index(None))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Index, E> {
                Ok(Index(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Index, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Index(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Index, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Index(None))
            }
        }
        deserializer.deserialize_any(IndexVisitor)
    }
}

pub(super) fn parse(bytes: &[u8]) -> ParsedLine<'_> {
    let line: Line = from_json(bytes, &[AUDIO, TEXT])?;
    let fail = |reason: String| Err(Malformed::new(reason));
    let member = match (line.member, line.member_offset, line.member_bytes) {
        (Some(name), Some(start), Some(len)) => Some((name.0, Span { start, len })),
        (None, None, None) => None,
        _ => {
            return fail(
                "\"member\", \"member_offset\" and \"member_bytes\" only mean something together"
                    .into(),
            );
        }
    };
    let channel = match line.channel.0 {
        Some(channel) if channel >= u64::from(u16::MAX) => {
            return fail(format!(
                "\"channel\" is {channel}, expected the number of a channel from 0"
            ));
        }
        channel => channel.map(|channel| channel as u16),
    };
    Ok(Parsed::Utterance(Entry {
        audio: line.audio_filepath,
        text: line.text,
        id: line.id.map(|id| id.0),
        duration_s: line.duration,
        offset_s: line.offset,
        speaker: line.speaker.map(|speaker| speaker.0),
        channel,
        member,
        shard: line.shard_id.0,
    }))
}

/// Reads `files`, all in one folder; `path` is what the user named.
pub(super) fn read(path: &Path, files: &[PathBuf]) -> Result<Arc<Manifest>, ManifestError> {
    let folder = |file: &Path| file.parent().unwrap_or(Path::new("")).to_owned();
    let base = files.first().map_or(PathBuf::new(), |first| folder(first));
    let mut builder = Builder::new(&base, EXPECTED);
    for file in files {
        if folder(file) != base {
            let reason =
                "its files are in several folders; name those of each folder by themselves";
            return Err(ManifestError::Kind { path: path.into(), reason: reason.into() });
        }
        lines::read_into(&mut builder, file, parse)?;
    }
    builder.finish(path)
}

#[cfg(test)]
mod tests {
    use super::super::AudioSource;
    use super::super::tests::{Tree, facts};
    use super::super::{Utterance, read};
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Utterance>, ManifestError> {
        let tree = Tree::new(&[("train.jsonl", text)]);
        let path = tree.path("train.jsonl");
        read(&path).map(|manifest| manifest.utterances().collect())
    }

    /// The message without the directory's name.
    fn error(text: &str) -> String {
        let tree = Tree::new(&[("train.jsonl", text)]);
        tree.error("train.jsonl")
    }

    #[test]
    fn a_line_of_another_tool_is_read_and_paths_start_at_the_manifest() {
        let text = "\u{feff}{\"audio_filepath\": \"audio/a b(1).wav\", \"text\": \"one\", \"duration\": 1.5, \"speaker\": 26, \"lang\": [\"en\"], \"channel\": \"left\"}\r\n\r\n  \n{\"audio_filepath\":\"/abs/b.flac\",\"text\":\"\",\"offset\":2.25,\"id\":\"x\",\"channel\":1}";
        let tree = Tree::new(&[("train.jsonl", text)]);
        let path = tree.path("train.jsonl");
        let utterances: Vec<Utterance> = read(&path).unwrap().utterances().collect();
        let first = &utterances[0];
        assert_eq!(first.audio(), AudioSource::File(tree.path("audio/a b(1).wav")));
        assert_eq!((first.id(), first.line(), first.duration_s()), ("a_b_1_", 1, Some(1.5)));
        assert_eq!((first.speaker(), first.channel(), first.text()), (Some("26"), None, "one"));
        let second = &utterances[1];
        assert_eq!(second.audio(), AudioSource::File("/abs/b.flac".into()));
        assert_eq!((second.id(), second.line(), second.offset_s()), ("x", 4, Some(2.25)));
        assert_eq!((second.speaker(), second.channel(), second.text()), (None, Some(1), ""));
        assert_eq!(second.place(), format!("{}:4", path.display()));
    }

    #[test]
    fn a_malformed_line_names_path_line_column_and_the_keys() {
        let good = "{\"audio_filepath\":\"a.wav\",\"text\":\"a\"}\n";
        for (bad, want) in [
            ("{\"audio_filepath\":\"a.wav\",\"text\":}", "train.jsonl:2:34: expected a value"),
            ("{\"audio_filepath\":\"a.wav\"}", "no key \"text\" among \"audio_filepath\""),
            ("{\"text\":\"a\"}", "no key \"audio_filepath\""),
            ("{\"audio_filepath\":\"a.wav\",\"text\":3}", "\"text\" is 3, expected a text"),
            ("hello", "train.jsonl:2:1:"),
            ("[1]", "train.jsonl:2:"),
            ("{\"audio_filepath\":\"a.wav\",\"text\":\"a\"", "train.jsonl:2:"),
            ("{\"audio_filepath\":\"a.wav\",\"text\":\"a\"} x", "expected the end of the line"),
            ("{\"audio_filepath\":\"\",\"text\":\"a\"}", "the name of its recording is empty"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"duration\":0}", "\"duration\" is 0"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"duration\":-1.5}", "\"duration\" is -1.5"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"duration\":NaN}", "train.jsonl:2:"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"duration\":1e999}", "train.jsonl:2:"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"offset\":-1}", "\"offset\" is -1"),
            (
                "{\"audio_filepath\":\"a\",\"text\":\"a\",\"speaker\":[1]}",
                "a string or a whole number",
            ),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"id\":\" \"}", "\"id\" is empty"),
            ("{\"audio_filepath\":\"a\",\"text\":\"a\",\"channel\":70000}", "\"channel\" is 70000"),
            (
                "{\"audio_filepath\":\"a\",\"text\":\"a\",\"member\":\"b\"}",
                "only mean something together",
            ),
        ] {
            let error = error(&format!("{good}{bad}\n"));
            assert!(error.starts_with("train.jsonl:2:") && error.contains(want), "{bad}: {error}");
            assert!(error.contains("\"speaker\"") && !error.contains(" at line "), "{error}");
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_named_by_its_line() {
        let tree = Tree::new(&[]);
        tree.write("m.jsonl", b"{\"audio_filepath\":\"\xff\",\"text\":\"\"}");
        assert!(tree.error("m.jsonl").starts_with("m.jsonl:1:"));
    }

    #[test]
    fn the_first_faults_are_shown_and_the_rest_counted() {
        let good = "{\"audio_filepath\":\"a.wav\",\"text\":\"a\"}\n";
        let text: String = (0..25).map(|_| format!("{good}x\n")).collect();
        let error = error(&text);
        assert!(error.starts_with("train.jsonl: 25 faults; each line is"), "{error}");
        for line in (2..=10).step_by(2) {
            let want =
                format!("\n  train.jsonl:{line}:1: expected a JSON object in braces, found `x`");
            assert!(error.contains(&want), "{error}");
        }
        assert!(error.ends_with("\n    and 20 more of this kind"), "{error}");
    }

    #[test]
    fn ids_given_twice_name_both_lines() {
        let line =
            |id: &str| format!("{{\"audio_filepath\":\"a.wav\",\"text\":\"a\",\"id\":\"{id}\"}}\n");
        let one = error(&[line("u"), line("v"), line("u")].concat());
        let want = "train.jsonl:3: id \"u\" is also on line 1; give each utterance its own";
        assert_eq!(one, want);
        let several = error(&[line("u"), line("u"), line("v"), line("u")].concat());
        assert!(
            several.contains(": 2 faults") && several.contains(":4: id \"u\" is also on line 1")
        );
    }

    #[test]
    fn ids_made_from_names_are_unique_and_stable() {
        let line = |path: &str| format!("{{\"audio_filepath\":\"{path}\",\"text\":\"a\"}}\n");
        let text = [line("x/a.wav"), line("y/a.wav"), line("y/b.wav")].concat();
        let text = text
            + "{\"audio_filepath\":\"b.wav\",\"text\":\"\",\"id\":\"b\"}\n"
            + "{\"audio_filepath\":\"c.wav\",\"text\":\"\",\"id\":\"a-line2\"}\n"
            + "{\"audio_filepath\":\"d.wav\",\"text\":\"\",\"offset\":1.25}\n";
        let utterances = read_text(&text).unwrap();
        let ids: Vec<&str> = utterances.iter().map(Utterance::id).collect();
        assert_eq!(ids, ["a", "a-line2-line2", "b-line3", "b", "a-line2", "d-0001250"]);
    }

    #[test]
    fn no_manifest_and_no_utterance_are_different_errors() {
        for text in ["", "\n\r\n", "\u{feff}"] {
            assert!(matches!(read_text(text), Err(ManifestError::Empty { .. })));
        }
        let error = read(Path::new("/nonexistent/m.jsonl")).err().unwrap();
        assert!(error.to_string().contains("/nonexistent/m.jsonl"), "{error}");
    }

    #[test]
    fn folders_and_speakers_are_kept_once_and_many_folders_change_nothing() {
        let line = |i: usize| {
            format!(
                "{{\"audio_filepath\":\"d{i}/a{i}.wav\",\"text\":\"t{i}\",\"speaker\":\"s{}\"}}\n",
                i % 3
            )
        };
        let text: String = (0..70_000).map(line).collect();
        let tree = Tree::new(&[("m.jsonl", &text)]);
        let manifest = read(&tree.path("m.jsonl")).unwrap();
        assert_eq!((manifest.len(), manifest.num_speakers()), (70_000, 3));
        for (i, facts) in facts(&manifest).into_iter().enumerate() {
            assert_eq!(facts.1, AudioSource::File(tree.path(&format!("d{i}/a{i}.wav"))));
            assert_eq!((facts.0, facts.2), (format!("a{i}"), format!("t{i}")));
        }
    }

    #[test]
    fn gzip_is_told_by_its_content() {
        use std::io::Write as _;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(b"{\"audio_filepath\":\"a.wav\",\"text\":\"a\"}\n").unwrap();
        let bytes = gzip.finish().unwrap();
        let tree = Tree::new(&[]);
        tree.write("m.jsonl", &bytes);
        assert_eq!(tree.facts("m.jsonl").len(), 1);
        tree.write("m.jsonl", &bytes[..bytes.len() - 12]);
        assert!(tree.error("m.jsonl").contains("cannot read the manifest"));
    }
}
