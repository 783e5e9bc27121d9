//! Kaldi data directories: `wav.scp` (recording, file), `text` (utterance, transcript), and optionally
//! `segments` (utterance, recording, start, end), `utt2spk` and `utt2dur`. The utterances are those of
//! `text`, which must all have a recording. Refused: commands in `wav.scp` (a pipe runs whatever it says),
//! archives (`file.ark:1234`), and recordings listed twice. <https://kaldi-asr.org/doc/data_prep.html>

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::build::{Builder, Entry, Malformed};
use super::lines::{utf8, word_and_rest};
use super::roots::set_base;
use super::{Manifest, ManifestError};

const EXPECTED: &str = "a line of wav.scp is `RECORDING PATH`, of text `UTTERANCE TRANSCRIPT`, of segments `UTTERANCE RECORDING START END`, of utt2spk `UTTERANCE SPEAKER`";

/// `sox`, `sph2pipe` and the like write their output with `|` at the end.
const PIPE: &str = "is a command (it ends with `|`), and manifests run none; write its output to a file once, such as by `wav-copy scp:wav.scp ark,scp:...` or by running the command with `> FILE.wav`, and name that file in wav.scp";

#[derive(Clone, Copy)]
struct Segment<'a> {
    recording: &'a str,
    start_s: f64,
    duration_s: Option<f64>,
}

pub(super) fn read(directory: &Path) -> Result<Arc<Manifest>, ManifestError> {
    let file = |name: &str| directory.join(name);
    let load = |name: &str| {
        let path = file(name);
        std::fs::read(&path).map_err(|source| ManifestError::Read { path, source })
    };
    let load_if_there = |name: &str| if file(name).exists() { load(name) } else { Ok(Vec::new()) };
    let (scp, text) = (load("wav.scp")?, load("text")?);
    let segments = load_if_there("segments")?;
    let (utt2spk, utt2dur) = (load_if_there("utt2spk")?, load_if_there("utt2dur")?);
    let has_segments = file("segments").exists();

    let mut builder = Builder::new(directory, EXPECTED);
    let recordings = table(&mut builder, &file("wav.scp"), &scp, recording);
    let segments = table(&mut builder, &file("segments"), &segments, segment);
    let speakers = table(&mut builder, &file("utt2spk"), &utt2spk, Ok);
    let durations = table(&mut builder, &file("utt2dur"), &utt2dur, seconds);
    if builder.has_faults() {
        // The faults that follow from these would only hide them.
        return builder.finish(directory);
    }
    // The first of the file is the one at the lowest address.
    let relative = recordings.values().filter(|path| Path::new(path).is_relative());
    set_base(&mut builder, relative.min_by_key(|path| path.as_ptr()).copied());

    let mut used = 0;
    let path = file("text");
    for_each_line(&mut builder, &path, &text, |builder, line, id, transcript| {
        let (name, offset_s, duration_s) = if has_segments {
            let Some(segment) = segments.get(id) else {
                return Err(Malformed::new(format!("utterance {id:?} is not in segments")));
            };
            (segment.recording, Some(segment.start_s), segment.duration_s)
        } else {
            (id, None, durations.get(id).copied())
        };
        let Some(audio) = recordings.get(name) else {
            return Err(Malformed::new(format!(
                "utterance {id:?}: recording {name:?} is not in wav.scp; add it, or remove the line (Kaldi's utils/fix_data_dir.sh does)"
            )));
        };
        used += 1;
        builder.push(
            line,
            &Entry {
                audio: Cow::Borrowed(audio),
                text: Cow::Borrowed(transcript),
                id: Some(Cow::Borrowed(id)),
                offset_s,
                duration_s,
                speaker: speakers.get(id).map(|speaker| Cow::Borrowed(*speaker)),
                ..Entry::default()
            },
        );
        Ok(())
    });
    let (listed, name) =
        if has_segments { (segments.len(), "segments") } else { (recordings.len(), "wav.scp") };
    for _ in used..listed {
        builder.skip("no transcript in text", || file(name).display().to_string());
    }
    builder.finish(directory)
}

/// The lines of one of the files by their first word.
fn table<'a, T>(
    builder: &mut Builder,
    path: &Path,
    bytes: &'a [u8],
    parse: impl Fn(&'a str) -> Result<T, Malformed>,
) -> HashMap<&'a str, T> {
    let mut values: HashMap<&str, T> = HashMap::new();
    for_each_line(builder, path, bytes, |_, _, key, rest| {
        let value = parse(rest)?;
        match values.insert(key, value) {
            None => Ok(()),
            Some(_) => {
                Err(Malformed::new(format!("{key:?} is there twice; remove one of the lines")))
            }
        }
    });
    values
}

fn for_each_line<'a>(
    builder: &mut Builder,
    path: &Path,
    bytes: &'a [u8],
    mut take: impl FnMut(&mut Builder, usize, &'a str, &'a str) -> Result<(), Malformed>,
) {
    builder.start_source(path);
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let taken = utf8(line).and_then(|line| {
            let (key, rest) = word_and_rest(line);
            take(builder, at + 1, key, rest)
        });
        if let Err(malformed) = taken {
            builder.malformed(at + 1, malformed);
        }
    }
}

fn recording(path: &str) -> Result<&str, Malformed> {
    if path.is_empty() {
        return Err(Malformed::new("the recording has no file"));
    }
    if path.ends_with('|') || path.starts_with('|') {
        return Err(Malformed::new(format!("{path:?} {PIPE}")));
    }
    let is_in_archive = path.rsplit_once(':').is_some_and(|(before, offset)| {
        before.ends_with(".ark") && offset.bytes().all(|byte| byte.is_ascii_digit())
    });
    if is_in_archive {
        return Err(Malformed::new(format!(
            "{path:?} lies in a Kaldi archive, which is not read; write WAV files, such as by `wav-copy scp:wav.scp scp:out.scp`"
        )));
    }
    Ok(path)
}

fn seconds(text: &str) -> Result<f64, Malformed> {
    let number: Option<f64> = text.parse().ok().filter(|seconds: &f64| seconds.is_finite());
    number.ok_or_else(|| Malformed::new(format!("{text:?} is no number of seconds")))
}

/// `RECORDING START END`; an end of -1 is that of the recording.
fn segment(rest: &str) -> Result<Segment<'_>, Malformed> {
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let &[recording, start, end] = fields.as_slice() else {
        return Err(Malformed::new(format!(
            "{} fields follow the utterance, expected RECORDING START END (segments of one channel are not read)",
            fields.len()
        )));
    };
    let (start_s, end_s) = (seconds(start)?, seconds(end)?);
    if end_s == -1.0 {
        return Ok(Segment { recording, start_s, duration_s: None });
    }
    if end_s <= start_s {
        return Err(Malformed::new(format!("the segment ends at {end} s but starts at {start} s")));
    }
    Ok(Segment { recording, start_s, duration_s: Some(end_s - start_s) })
}

#[cfg(test)]
mod tests {
    use super::super::AudioSource;
    use super::super::tests::Tree;

    #[test]
    fn recordings_transcripts_and_speakers_come_together() {
        let tree = Tree::new(&[
            ("wav.scp", "u2 audio/two.wav\nu1 /abs/one one.flac \nu3 audio/three.wav\n"),
            ("text", "u1 HELLO  WORLD \r\nu2\n\n"),
            ("utt2spk", "u1 anna\nu2 ben\nu3 ben\n"),
            ("utt2dur", "u1 1.25\n"),
        ]);
        let file = |path| AudioSource::File(path);
        let want = [
            (
                "u1".into(),
                file("/abs/one one.flac".into()),
                "HELLO  WORLD".into(),
                Some(1.25),
                None,
                Some("anna".into()),
                None,
            ),
            (
                "u2".into(),
                file(tree.path("audio/two.wav")),
                String::new(),
                None,
                None,
                Some("ben".into()),
                None,
            ),
        ];
        assert_eq!(tree.facts(""), want);
        let manifest = super::read(&tree.path("")).unwrap();
        assert_eq!(
            (manifest.skipped()[0].count, manifest.skipped()[0].reason),
            (1, "no transcript in text")
        );
        let second = manifest.utterances().nth(1).unwrap();
        assert_eq!(second.place(), format!("{}:2", tree.path("text").display()));
    }

    #[test]
    fn segments_are_parts_of_recordings() {
        let tree = Tree::new(&[
            ("wav.scp", "r a.wav\n"),
            ("segments", "u1 r 0.5 1.75\nu2 r 2.0 -1\n"),
            ("text", "u1 one\nu2 two\n"),
        ]);
        let times: Vec<_> = tree.facts("").into_iter().map(|facts| (facts.4, facts.3)).collect();
        assert_eq!(times, [(Some(0.5), Some(1.25)), (Some(2.0), None)]);
    }

    #[test]
    fn relative_recordings_start_where_the_first_is_found() {
        let scp = "u audio/a.wav\n";
        let tree = Tree::new(&[
            ("data/train/wav.scp", scp),
            ("data/train/text", "u a\n"),
            ("audio/a.wav", ""),
        ]);
        assert_eq!(tree.facts("data/train")[0].1, AudioSource::File(tree.path("audio/a.wav")));
        let tree = Tree::new(&[("data/train/wav.scp", scp), ("data/train/text", "u a\n")]);
        let at_the_manifest = tree.path("data/train/audio/a.wav");
        assert_eq!(tree.facts("data/train")[0].1, AudioSource::File(at_the_manifest));
    }

    #[test]
    fn a_pipe_and_an_archive_say_how_to_make_files_of_them() {
        let tree = Tree::new(&[
            ("wav.scp", "u1 sph2pipe -f wav a.sph |\nu2 /x/raw.ark:1234\nu3 c.wav\n"),
            ("text", "u1 a\nu2 b\nu3 c\n"),
        ]);
        let error = tree.error("");
        assert!(error.starts_with("2 faults"), "what follows from a fault is none: {error}");
        assert!(error.contains("wav.scp:1: \"sph2pipe -f wav a.sph |\" is a command"), "{error}");
        assert!(error.contains("> FILE.wav") && error.contains("wav.scp:2:"), "{error}");
    }

    #[test]
    fn faults_are_named_by_file_and_line() {
        let scp = ("wav.scp", "r a.wav\n");
        for (segments, text, want) in [
            ("u r 1.0 0.5\n", "u a\n", "segments:1: the segment ends at 0.5 s"),
            ("u r 1.0 x\n", "u a\n", "segments:1: \"x\" is no number"),
            ("u r 1.0\n", "u a\n", "segments:1: 2 fields"),
            ("u r 0 1\nu r 1 2\n", "u a\n", "segments:2: \"u\" is there twice"),
            ("u q 0 1\n", "u a\n", "text:1: utterance \"u\": recording \"q\" is not in wav.scp"),
            ("u r 0 1\n", "v a\n", "text:1: utterance \"v\" is not in segments"),
            ("u r -1 1\n", "u a\n", "text:1:1: \"offset\" is -1"),
            ("u r 0 1\n", "u a\nu b\n", "text:2: id \"u\" is also on line 1"),
        ] {
            let error = Tree::new(&[scp, ("segments", segments), ("text", text)]).error("");
            assert!(error.starts_with(want), "{want}: {error}");
        }
    }
}
