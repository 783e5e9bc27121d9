//! The usable part of a set as a manifest of its own, for `asr-train check --fix`: what training would
//! use, with the durations that were measured, in the order of the manifests it came from.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::Surveyed;
use crate::corpus::AudioSource;

/// A line of the manifest.
#[derive(Serialize)]
struct Line<'a> {
    audio_filepath: String,
    duration: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<u16>,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<&'a str>,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_bytes: Option<u64>,
}

/// Writes a line for each of `usable`, for a manifest that will lie at `manifest`: paths are relative to
/// it where both share a folder. Ids that several manifests share are numbered.
///
/// # Errors
/// What `out` answered, and recordings whose names are no Unicode, which JSON cannot hold.
pub fn write_manifest<'a>(
    out: &mut impl Write,
    manifest: &Path,
    usable: impl Iterator<Item = &'a Surveyed>,
) -> io::Result<()> {
    let manifest = std::path::absolute(manifest)?;
    let folder = manifest.parent().unwrap_or(Path::new(""));
    let mut ids = std::collections::HashSet::new();
    for surveyed in usable {
        let utterance = &surveyed.utterance;
        let audio = utterance.audio();
        let member = match &audio {
            AudioSource::File(_) => None,
            AudioSource::Member { name, span, .. } => Some((name.as_str(), *span)),
        };
        let path = relative(&std::path::absolute(audio.file())?, folder);
        let audio_filepath = path.to_str().ok_or_else(|| {
            let text = format!("{}: a path that is no Unicode has no form in JSON", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let mut id = utterance.id().to_owned();
        for number in 2.. {
            if ids.insert(id.clone()) {
                break;
            }
            id = format!("{}-{number}", utterance.id());
        }
        let line = Line {
            audio_filepath: audio_filepath.to_owned(),
            duration: (surveyed.duration_s() * 1e6).round() / 1e6,
            offset: utterance.offset_s(),
            channel: utterance.channel(),
            text: utterance.text(),
            speaker: utterance.speaker(),
            id: &id,
            member: member.map(|(name, _)| name),
            member_offset: member.map(|(_, span)| span.start),
            member_bytes: member.map(|(_, span)| span.len),
        };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// `path` as seen from `folder`, both absolute; as it is where they share nothing but the root.
fn relative(path: &Path, folder: &Path) -> PathBuf {
    let shared = path.components().zip(folder.components()).take_while(|(a, b)| a == b);
    let shared: Vec<Component> = shared.map(|(component, _)| component).collect();
    if !shared.iter().any(|component| matches!(component, Component::Normal(_))) {
        return path.to_owned();
    }
    let up = folder.components().skip(shared.len()).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::tests::Scratch;
    use crate::data::survey::tests::{corpus, corpus_with};
    use crate::data::{DataConfig, manifest, survey};

    #[test]
    fn what_is_written_reads_back_as_the_same_utterances() {
        let scratch = Scratch::new("fix");
        let parts = [(16_000, "ab \"c\""), (9_000, "ba"), (16_000, "\u{e4}")];
        let data = corpus_with(&scratch, &parts, |index, line| match index {
            0 => line["speaker"] = "ann".into(),
            1 => line["duration"] = serde_json::Value::Null,
            _ => (line["offset"], line["duration"]) = (0.25.into(), 0.5.into()),
        });
        // Another manifest's, whose ids may be the same.
        let again = corpus(&scratch, &parts[..1]);
        let all = [data, again].concat();
        let found = survey(all, &DataConfig::default(), 16_000, &|| {}).unwrap();
        std::fs::create_dir(scratch.0.join("fixed")).unwrap();
        let path = scratch.0.join("fixed/train.jsonl");
        let mut bytes = Vec::new();
        write_manifest(&mut bytes, &path, found.kept.iter()).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.starts_with("{\"audio_filepath\":\"../u0.wav\",\"duration\":1.0,"), "{text}");
        std::fs::write(&path, bytes).unwrap();
        let read = manifest::read(&path).unwrap();
        let again = survey(read, &DataConfig::default(), 16_000, &|| {}).unwrap();
        let ids: Vec<&str> = again.kept.iter().map(|kept| kept.utterance.id()).collect();
        assert_eq!(ids, ["u0", "u1", "u2-0000250", "u0-2"]);
        for (a, b) in found.kept.iter().zip(&again.kept) {
            assert_eq!((a.text(), a.num_samples()), (b.text(), b.num_samples()));
            assert_eq!(a.utterance.speaker(), b.utterance.speaker());
            assert_eq!(a.samples(), b.samples());
        }
    }

    #[test]
    fn paths_are_relative_where_a_folder_is_shared() {
        for (path, folder, want) in [
            ("/data/set/a.wav", "/data/set", "a.wav"),
            ("/data/set/x/a.wav", "/data/set", "x/a.wav"),
            ("/data/other/a.wav", "/data/set/fixed", "../../other/a.wav"),
            ("/mnt/a.wav", "/data/set", "/mnt/a.wav"),
        ] {
            assert_eq!(relative(path.as_ref(), folder.as_ref()), Path::new(want));
        }
    }
}
