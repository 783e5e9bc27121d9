//! Lhotse cuts, `.jsonl` or `.jsonl.gz`: a `MonoCut` with one supervision, whose recording is a file.
//! The utterance is the cut, as it is in Lhotse, whatever silence it has around the supervision.
//! Refused, each with the command that makes it readable: several supervisions in a cut or one that reaches
//! out of it, `MixedCut`,
//! `PaddingCut` and `MultiCut`, transforms that Lhotse applies when it reads, commands and URLs. Cuts without a supervision are left out and counted.
//! <https://lhotse.readthedocs.io/en/latest/cuts.html>

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::build::{Builder, Entry, Malformed};
use super::json::from_json;
use super::jsonl::Name;
use super::lines::{self, Parsed, ParsedLine};
use super::roots::{LOOKED_FOR, set_base};
use super::{Manifest, ManifestError};

pub(super) const EXPECTED: &str = "each line is a Lhotse MonoCut with a recording of type \"file\" and one supervision with a text";

const NO_SUPERVISION: &str = "cut without a supervision";

#[derive(Deserialize)]
struct Cut<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Name<'a>>,
    start: Option<f64>,
    duration: Option<f64>,
    channel: Option<serde_json::Value>,
    #[serde(borrow, default)]
    supervisions: Vec<Supervision<'a>>,
    #[serde(borrow)]
    recording: Option<Recording<'a>>,
}

#[derive(Deserialize)]
struct Supervision<'a> {
    start: Option<f64>,
    duration: Option<f64>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    speaker: Option<Name<'a>>,
}

#[derive(Deserialize)]
struct Recording<'a> {
    #[serde(borrow, default)]
    sources: Vec<Source<'a>>,
    duration: Option<f64>,
    transforms: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    channels: Vec<u64>,
    source: serde_json::Value,
}

/// A supervision may reach this far out of its cut: tools round.
const OUTSIDE_TOLERANCE_S: f64 = 0.1;

/// A cut that ends this close to its recording's end is all of it.
const WHOLE_TOLERANCE_S: f64 = 1e-3;

/// Lines among which a relative recording is looked for.
const LOOKED_AT: usize = 1_000;

pub(super) fn read(path: &Path) -> Result<Arc<Manifest>, ManifestError> {
    let mut builder = Builder::new(path.parent().unwrap_or(Path::new("")), EXPECTED);
    let first =
        first_relative(path).map_err(|source| ManifestError::Read { path: path.into(), source })?;
    set_base(&mut builder, &first);
    lines::read_into(&mut builder, path, parse)?;
    builder.finish(path)
}

/// The first relative recordings: cuts without a supervision or of another folder may come before them.
fn first_relative(path: &Path) -> std::io::Result<Vec<String>> {
    let mut reader = BufReader::new(lines::open(path)?.take(lines::MAX_LINE_LEN as u64));
    let (mut found, mut line) = (Vec::new(), Vec::new());
    for _ in 0..LOOKED_AT {
        line.clear();
        if found.len() >= LOOKED_FOR || reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if let Ok(Parsed::Utterance(entry)) =
            parse(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line))
            && Path::new(&*entry.audio).is_relative()
        {
            found.push(entry.audio.into_owned());
        }
    }
    Ok(found)
}

fn parse(bytes: &[u8]) -> ParsedLine<'_> {
    parse_as("file", bytes)
}

/// A cut of Lhotse Shar: its entry names no recording yet.
pub(super) fn parse_shar(bytes: &[u8]) -> ParsedLine<'_> {
    parse_as("shar", bytes)
}

/// `source_type` is what Lhotse calls the place of the audio.
fn parse_as<'a>(source_type: &str, bytes: &'a [u8]) -> ParsedLine<'a> {
    let cut: Cut = from_json(bytes, &[])?;
    let fail = |reason: String| Err(Malformed::new(reason));
    let id = cut.id.map(|id| id.0);
    let called = id.as_deref().unwrap_or_default();
    match cut.kind.as_deref() {
        None | Some("MonoCut" | "Cut") => {}
        Some(kind) => {
            return fail(format!(
                "cut {called:?} is a {kind}, which Lhotse puts together when it reads; write its audio with `CutSet.save_audios()`"
            ));
        }
    }
    let Some(recording) = cut.recording else {
        return fail(format!(
            "cut {called:?} has no recording (features alone are not read); make cuts from recordings with `lhotse cut simple -r RECORDINGS -s SUPERVISIONS`"
        ));
    };
    let mut supervisions = cut.supervisions.into_iter();
    let supervision = match (supervisions.next(), supervisions.len()) {
        (None, _) => return Ok(Parsed::Skip(NO_SUPERVISION)),
        (Some(supervision), 0) => supervision,
        (_, more) => {
            return fail(format!(
                "cut {called:?} has {} supervisions; make one cut of each with `lhotse cut trim-to-supervisions`",
                more + 1
            ));
        }
    };
    if recording.transforms.is_some_and(|transforms| !transforms.is_empty()) {
        return fail(format!(
            "cut {called:?}: its recording has transforms (speed, volume, resampling) that Lhotse applies when it reads; write its audio with `CutSet.save_audios()`"
        ));
    }
    // Cuts made by windows keep the text of all that was cut.
    if let (Some(start_s), Some(duration_s), Some(cut_s)) =
        (supervision.start, supervision.duration, cut.duration)
        && (start_s < -OUTSIDE_TOLERANCE_S || start_s + duration_s > cut_s + OUTSIDE_TOLERANCE_S)
    {
        return fail(format!(
            "cut {called:?} is {cut_s} s long, but its supervision is from {start_s} to {} s: a part of its text is not heard; make one cut of each supervision with `lhotse cut trim-to-supervisions`",
            start_s + duration_s
        ));
    }
    let Some(text) = supervision.text else {
        return fail(format!("cut {called:?}: its supervision has no text"));
    };
    let (audio, channel) = match audio(source_type, recording.sources, cut.channel.as_ref()) {
        Ok(audio) => audio,
        Err(reason) => return fail(format!("cut {called:?}: {reason}")),
    };
    let start_s = cut.start.unwrap_or(0.0);
    let is_whole = start_s == 0.0
        && match (cut.duration, recording.duration) {
            (Some(cut_s), Some(recorded_s)) => (cut_s - recorded_s).abs() < WHOLE_TOLERANCE_S,
            (cut_s, _) => cut_s.is_none(),
        };
    Ok(Parsed::Utterance(Entry {
        audio: Cow::Owned(audio),
        text,
        id,
        offset_s: (!is_whole).then_some(start_s),
        duration_s: cut.duration,
        speaker: supervision.speaker.map(|speaker| speaker.0),
        channel,
        ..Entry::default()
    }))
}

/// The file with the cut's channel, and the channel's place in it where there are several.
fn audio(
    source_type: &str,
    sources: Vec<Source>,
    channel: Option<&serde_json::Value>,
) -> Result<(String, Option<u16>), String> {
    let channel = match channel {
        None => 0,
        Some(value) => value.as_u64().ok_or_else(|| {
            format!("its channel is {value}, expected one number; make a MonoCut of each channel")
        })?,
    };
    let num_sources = sources.len();
    let source = sources
        .into_iter()
        .find(|source| source.channels.contains(&channel) || source.channels.is_empty())
        .ok_or_else(|| format!("none of its {num_sources} sources has channel {channel}"))?;
    if source.kind == "shar" && source_type != "shar" {
        return Err("its audio is in a Lhotse Shar directory; name the directory".into());
    }
    if source.kind != source_type {
        return Err(format!(
            "its audio is of type {:?}, and only {source_type:?} is read; write it with `CutSet.save_audios()`",
            source.kind
        ));
    }
    let serde_json::Value::String(path) = source.source else {
        return Err(format!("its audio source is {}, expected a path", source.source));
    };
    let place = source.channels.iter().position(|number| *number == channel);
    let place = place.filter(|_| source.channels.len() > 1);
    Ok((path, place.and_then(|place| u16::try_from(place).ok())))
}

#[cfg(test)]
mod tests {
    use super::super::AudioSource;
    use super::super::tests::Tree;
    use super::*;
    use serde_json::{Value, json};

    fn cut() -> Value {
        json!({
            "id": "c-1", "start": 0.0, "duration": 3.0, "channel": 0, "type": "MonoCut",
            "supervisions": [{"id": "s", "recording_id": "r", "start": 0.0, "duration": 3.0, "channel": 0,
                              "text": "Hello \u{e9}", "language": "en", "speaker": "anna"}],
            "recording": {"id": "r", "sampling_rate": 16000, "num_samples": 48000, "duration": 3.0,
                          "channel_ids": [0], "sources": [{"type": "file", "channels": [0], "source": "a.wav"}]},
            "custom": {"snr": [1, 2]}
        })
    }

    fn with(change: impl Fn(&mut Value)) -> Value {
        let mut cut = cut();
        change(&mut cut);
        cut
    }

    #[test]
    fn a_cut_is_a_recording_or_a_part_of_one() {
        let tree = Tree::new(&[]);
        let lines = [
            cut(),
            with(|cut| {
                cut["supervisions"][0]["start"] = 0.25.into();
                cut["supervisions"][0]["duration"] = 0.5.into();
                (cut["id"], cut["start"], cut["duration"]) = ("c-2".into(), 0.5.into(), 1.0.into())
            }),
            with(|cut| cut["supervisions"] = json!([])),
            with(|cut| {
                cut["id"] = 3.into();
                cut["channel"] = 1.into();
                cut["recording"]["sources"] =
                    json!([{"type": "file", "channels": [0, 1], "source": "/x/b.wav"}]);
                cut["supervisions"][0]["speaker"] = Value::Null;
            }),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let path = tree.write("cuts.jsonl", text.as_bytes());
        let text = || "Hello \u{e9}".to_owned();
        let anna = || Some("anna".to_owned());
        let here = || AudioSource::File(tree.path("a.wav"));
        let there = AudioSource::File("/x/b.wav".into());
        let want = [
            ("c-1".into(), here(), text(), Some(3.0), None, anna(), None),
            ("c-2".into(), here(), text(), Some(1.0), Some(0.5), anna(), None),
            ("3".into(), there, text(), Some(3.0), None, None, Some(1)),
        ];
        assert_eq!(tree.facts("cuts.jsonl"), want);
        let skipped = read(&path).unwrap().skipped()[0].clone();
        assert_eq!((skipped.count, skipped.reason), (1, NO_SUPERVISION));
        assert!(skipped.first.ends_with("cuts.jsonl:3"));
    }

    #[test]
    fn relative_recordings_start_where_the_first_is_found_whatever_comes_before_it() {
        let absolute = with(|cut| cut["recording"]["sources"][0]["source"] = json!("/x/b.wav"));
        let unsaid = with(|cut| cut["supervisions"] = json!([]));
        let last = with(|cut| cut["id"] = "c-2".into());
        let text = format!("\u{feff}{unsaid}\n{absolute}\n{last}\n");
        let tree = Tree::new(&[("data/cuts/cuts.jsonl", &text), ("a.wav", "")]);
        assert_eq!(tree.facts("data/cuts/cuts.jsonl")[1].1, AudioSource::File(tree.path("a.wav")));
    }

    #[test]
    fn what_lhotse_makes_when_it_reads_is_refused_with_the_way_out() {
        let two = |cut: &mut Value| {
            let one = cut["supervisions"][0].clone();
            cut["supervisions"].as_array_mut().unwrap().push(one);
        };
        let cases: &[(Value, &str)] = &[
            (
                with(two),
                "2 supervisions; make one cut of each with `lhotse cut trim-to-supervisions`",
            ),
            (with(|cut| cut["type"] = "MixedCut".into()), "is a MixedCut"),
            (with(|cut| cut["type"] = "PaddingCut".into()), "save_audios()"),
            (with(|cut| cut["recording"] = Value::Null), "has no recording"),
            (with(|cut| cut["recording"]["transforms"] = json!([{"name": "Speed"}])), "transforms"),
            (
                with(|cut| cut["recording"]["sources"][0]["type"] = "command".into()),
                "of type \"command\"",
            ),
            (
                with(|cut| cut["recording"]["sources"][0]["source"] = json!({"x": 1})),
                "expected a path",
            ),
            (with(|cut| cut["channel"] = json!([0, 1])), "its channel is [0,1]"),
            (with(|cut| cut["channel"] = 4.into()), "none of its 1 sources has channel 4"),
            (with(|cut| cut["supervisions"][0]["text"] = Value::Null), "no text"),
            (
                with(|cut| cut["duration"] = 2.0.into()),
                "is 2 s long, but its supervision is from 0 to 3 s",
            ),
            (with(|cut| cut["supervisions"][0]["start"] = (-1).into()), "is from -1 to 2 s"),
            (
                with(|cut| {
                    (cut["duration"], cut["supervisions"][0]["duration"]) =
                        ((-1).into(), (-2).into())
                }),
                "\"duration\" is -1",
            ),
        ];
        for (line, want) in cases {
            let tree = Tree::new(&[("cuts.jsonl", &format!("{line}\n"))]);
            let error = tree.error("cuts.jsonl");
            assert!(error.starts_with("cuts.jsonl:1: ") && error.contains(want), "{want}: {error}");
        }
        let alone = json!({"id": "r", "sources": [], "sampling_rate": 16000, "duration": 1.0});
        let tree = Tree::new(&[("recordings.jsonl", &alone.to_string())]);
        assert!(tree.error("recordings.jsonl").contains("lhotse cut simple"));
    }
}
