//! Kaldi data directories: `wav.scp` (recording, file), `text` (utterance, transcript), and optionally
//! `segments` (utterance, recording, start, end), `utt2spk` and `utt2dur`. The utterances are those of
//! `text`, which must all have a recording. Refused: commands in `wav.scp` (a pipe runs whatever it says),
//! archives (`file.ark:1234`), and recordings listed twice. <https://kaldi-asr.org/doc/data_prep.html>

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::build::{Builder, Entry, Malformed};
use super::lines::{lines_of, utf8, word_and_rest};
use super::roots::set_base;
use super::{Fault, Manifest, ManifestError};

const EXPECTED: &str = "a line of wav.scp is `RECORDING PATH`, of text `UTTERANCE TRANSCRIPT`, of segments `UTTERANCE RECORDING START END`, of utt2spk `UTTERANCE SPEAKER`";

/// `sox`, `sph2pipe` and the like write their output with `|` at the end.
const PIPE: &str = "is a command (it ends with `|`), and manifests run none; write its output to a file once, such as by `wav-copy scp:wav.scp ark,scp:...` or by running the command with `> FILE.wav`, and name that file in wav.scp";

#[derive(Clone, Copy)]
struct Segment<'a> {
    recording: &'a str,
    start_s: f64,
    duration_s: Option<f64>,
}

/// The lines of one of the files by their first word; `None` where the rest of the line is wrong, so that
/// what follows from that is not told as well.
type Table<'a, T> = HashMap<&'a str, Option<T>>;

pub(super) fn read(directory: &Path) -> Result<Arc<Manifest>, ManifestError> {
    let mut builder = Builder::new(directory, EXPECTED);
    let mut load = |name: &str| -> Option<Vec<u8>> {
        let path = directory.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let is_optional = !matches!(name, "wav.scp" | "text");
                if !(is_optional && error.kind() == std::io::ErrorKind::NotFound) {
                    builder.fault(Fault::of_file(path, error.to_string()));
                }
                None
            }
        }
    };
    let [scp, text, segments, utt2spk, utt2dur] =
        ["wav.scp", "text", "segments", "utt2spk", "utt2dur"].map(&mut load);
    let has_segments = directory.join("segments").exists();
    let file = |name: &str| directory.join(name);
    // Of a file that cannot be read every line of text would seem to lack something.
    let is_whole = scp.is_some() && (segments.is_some() || !has_segments);
    let text = text.filter(|_| is_whole).unwrap_or_default();

    let recordings = table(&mut builder, &file("wav.scp"), &scp, recording);
    let segments = table(&mut builder, &file("segments"), &segments, segment);
    let speakers = table(&mut builder, &file("utt2spk"), &utt2spk, Ok);
    let durations = table(&mut builder, &file("utt2dur"), &utt2dur, duration);
    let relative = recordings.values().flatten().filter(|path| Path::new(path).is_relative());
    let mut relative: Vec<&str> = relative.copied().collect();
    // In the order of the file.
    relative.sort_unstable_by_key(|path| path.as_ptr());
    set_base(&mut builder, &relative);

    let (listed, name) = if has_segments {
        (segments.keys().copied().collect::<HashSet<&str>>(), "segments")
    } else {
        (recordings.keys().copied().collect(), "wav.scp")
    };
    let mut unspoken = listed;
    for_each_line(&mut builder, &file("text"), &text, |builder, line, id, transcript| {
        unspoken.remove(id);
        let (name, offset_s, duration_s) = if has_segments {
            match segments.get(id) {
                Some(Some(segment)) => {
                    (segment.recording, Some(segment.start_s), segment.duration_s)
                }
                Some(None) => return Ok(()),
                None => {
                    return Err(Malformed::new(format!("utterance {id:?} is not in segments")));
                }
            }
        } else {
            (id, None, durations.get(id).copied().flatten())
        };
        let audio = match recordings.get(name) {
            Some(Some(audio)) => audio,
            Some(None) => return Ok(()),
            None => {
                return Err(Malformed::new(format!(
                    "utterance {id:?}: recording {name:?} is not in wav.scp; add it, or remove the line (Kaldi's utils/fix_data_dir.sh does)"
                )));
            }
        };
        builder.push(
            line,
            &Entry {
                audio: Cow::Borrowed(audio),
                text: Cow::Borrowed(transcript),
                id: Some(Cow::Borrowed(id)),
                offset_s,
                duration_s,
                speaker: speakers.get(id).copied().flatten().map(Cow::Borrowed),
                ..Entry::default()
            },
        );
        Ok(())
    });
    if let Some(first) = unspoken.iter().min() {
        let first = format!("{first:?} of {}", file(name).display());
        builder.skip_many("no transcript in text", unspoken.len(), first);
    }
    builder.finish(directory)
}

fn table<'a, T>(
    builder: &mut Builder,
    path: &Path,
    bytes: &'a Option<Vec<u8>>,
    parse: impl Fn(&'a str) -> Result<T, Malformed>,
) -> Table<'a, T> {
    let mut values = Table::new();
    let Some(bytes) = bytes else { return values };
    for_each_line(builder, path, bytes, |_, _, key, rest| {
        let (value, fault) = match parse(rest) {
            Ok(value) => (Some(value), None),
            Err(malformed) => (None, Some(malformed)),
        };
        let is_twice = values.insert(key, value).is_some();
        match fault {
            Some(malformed) => Err(malformed),
            None if is_twice => {
                Err(Malformed::new(format!("{key:?} is there twice; remove one of the lines")))
            }
            None => Ok(()),
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
    for (line, bytes) in lines_of(bytes) {
        let taken = utf8(bytes).and_then(|text| {
            let (key, rest) = word_and_rest(text);
            take(builder, line, key, rest)
        });
        if let Err(malformed) = taken {
            builder.malformed(line, malformed);
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

fn duration(text: &str) -> Result<f64, Malformed> {
    match seconds(text)? {
        duration_s if duration_s > 0.0 => Ok(duration_s),
        _ => Err(Malformed::new(format!("the duration is {text}, expected seconds above 0"))),
    }
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
    if start_s < 0.0 {
        return Err(Malformed::new(format!("the segment starts at {start} s, expected 0 or more")));
    }
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
    fn a_first_recording_that_is_missing_moves_no_other() {
        let tree = Tree::new(&[
            ("data/train/wav.scp", "u audio/gone.wav\nv audio/a.wav\n"),
            ("data/train/text", "u a\nv b\n"),
            ("audio/a.wav", ""),
        ]);
        assert_eq!(tree.facts("data/train")[1].1, AudioSource::File(tree.path("audio/a.wav")));
    }

    #[test]
    fn a_pipe_and_an_archive_say_how_to_make_files_of_them() {
        let tree = Tree::new(&[
            ("wav.scp", "u1 sph2pipe -f wav a.sph |\nu2 /x/raw.ark:1234\nu3 c.wav\n"),
            ("text", "u1 a\nu2 b\nu3 c\n"),
        ]);
        let error = tree.error("");
        assert!(error.contains(": 2 faults"), "what follows from a fault is none: {error}");
        assert!(error.contains("wav.scp:1: \"sph2pipe -f wav a.sph |\" is a command"), "{error}");
        assert!(error.contains("> FILE.wav") && error.contains("wav.scp:2:"), "{error}");
    }

    #[test]
    fn the_faults_of_all_files_are_told_at_once_and_none_that_follows_from_another() {
        let mut text = String::from("u1 a\nu2 b\nu3 c\nu4 d\n\u{e9}\n");
        text.extend((0..20).map(|i| format!("v{i} x\n")));
        let tree = Tree::new(&[
            ("wav.scp", "r1 a.wav\nr2 sox b.mp3 -t wav - |\nr3\n"),
            ("segments", "u1 r1 2 1\nu2 r2 0 1\nu3 r3 0 1\nu4 r4 0 1\n"),
            ("text", &text),
            ("utt2spk", "u1 ann\nu1 ben\n"),
            ("utt2dur", "u1 0\n"),
        ]);
        let error = tree.error("");
        for want in [
            "wav.scp:2: \"sox b.mp3 -t wav - |\" is a command",
            "wav.scp:3: the recording has no file",
            "segments:1: the segment ends at 1 s",
            "utt2spk:2: \"u1\" is there twice",
            "utt2dur:1: the duration is 0",
            "text:4: utterance \"u4\": recording \"r4\" is not in wav.scp",
            "text:5: utterance \"\u{e9}\" is not in segments",
            "and 20 more of this kind",
        ] {
            assert!(error.contains(want), "{want}: {error}");
        }
        assert!(error.contains(": 27 faults"), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_read_hides_no_fault_of_the_others() {
        let tree = Tree::new(&[("wav.scp", "u\n"), ("text", "u a\n"), ("segments/x", "")]);
        let error = tree.error("");
        assert!(error.contains(": 2 faults"), "{error}");
        assert!(
            error.contains("segments: Is a directory") && error.contains("wav.scp:1:"),
            "{error}"
        );
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
            ("u r -1 1\n", "u a\n", "segments:1: the segment starts at -1 s, expected 0 or more"),
            ("u r 0 1\n", "u a\nu b\n", "text:2: id \"u\" is also on line 1"),
        ] {
            let error = Tree::new(&[scp, ("segments", segments), ("text", text)]).error("");
            assert!(error.starts_with(want), "{want}: {error}");
        }
    }
}
