//! The usable part of a set as a manifest of its own, for `asr-train check --fix`: what training would
//! use, with the durations that were measured, in the order of the manifests it came from.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use super::Surveyed;
use crate::corpus::Writer;

/// Writes a line for each of `usable`, for a manifest that will lie at `manifest`. Ids that several
/// manifests share are numbered.
///
/// # Errors
/// As [`Writer::write`].
pub fn write_manifest<'a>(
    out: &mut impl Write,
    manifest: &Path,
    usable: impl Iterator<Item = &'a Surveyed>,
) -> io::Result<()> {
    let mut writer = Writer::of(manifest)?;
    let mut ids = HashSet::new();
    for surveyed in usable {
        let utterance = &surveyed.utterance;
        let mut id = utterance.id().to_owned();
        for number in 2.. {
            if ids.insert(id.clone()) {
                break;
            }
            id = format!("{}-{number}", utterance.id());
        }
        let duration_s = (surveyed.duration_s() * 1e6).round() / 1e6;
        writer.write_as(out, utterance, &id, Some(duration_s))?;
    }
    Ok(())
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
}
