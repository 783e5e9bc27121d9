//! Lhotse Shar: `cuts.N.jsonl.gz` beside `recording.N.tar`, whose members are called by the ids of the cuts.
//! A cut's recording is its member, whole, as Lhotse wrote it: resampled, cut and mixed. Other fields
//! (features, arrays) are not looked at. <https://lhotse.readthedocs.io/en/latest/shar.html>

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::{Builder, Malformed};
use super::kind::is_audio;
use super::lines::{self, Parsed};
use super::{Fault, Manifest, ManifestError, lhotse, tar};

/// Files of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharShard {
    pub cuts: PathBuf,
    pub recordings: PathBuf,
}

impl SharShard {
    /// The shard whose cuts are the file `name` of `folder`, if they are cuts of Shar.
    pub fn of(folder: &Path, name: &str) -> Option<SharShard> {
        let suffix = name.strip_prefix("cuts")?.strip_suffix(".jsonl.gz")?;
        let recordings = folder.join(format!("recording{suffix}.tar"));
        recordings.is_file().then(|| SharShard { cuts: folder.join(name), recordings })
    }
}

/// Reads the shards in `folder`.
pub(super) fn read(folder: &Path, shards: &[SharShard]) -> Result<Arc<Manifest>, ManifestError> {
    let mut builder = Builder::new(folder, lhotse::EXPECTED);
    for SharShard { cuts, recordings } in shards {
        builder.start_source(cuts);
        let name = recordings.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let members = match tar::index(recordings, is_audio) {
            Ok(members) => members,
            Err(error) => {
                let (path, reason) = (recordings.clone(), error.to_string());
                builder.fault(Fault { path, line: None, column: None, reason });
                continue;
            }
        };
        let members: HashMap<String, tar::Member> =
            members.into_iter().map(|member| (key(&member.name).to_owned(), member)).collect();
        let failed = |source| ManifestError::Read { path: cuts.clone(), source };
        let mut reader = lines::open(cuts).map_err(failed)?;
        lines::for_each(&mut reader, lhotse::parse_shar, |line, parsed| {
            let mut entry = match parsed {
                Ok(Parsed::Utterance(entry)) => entry,
                Ok(Parsed::Skip(reason)) => return builder.skip_line(reason, line),
                Err(malformed) => return builder.malformed(line, malformed),
            };
            let id = entry.id.as_deref().unwrap_or_default();
            let Some(member) = members.get(id) else {
                let reason = format!("cut {id:?} has no recording in {name}");
                return builder.malformed(line, Malformed::new(reason));
            };
            entry.audio = Cow::Borrowed(name);
            entry.member = Some((Cow::Borrowed(&member.name), member.span));
            builder.push(line, &entry);
        })
        .map_err(failed)?;
    }
    builder.finish(folder)
}

/// The name without its extension: ids may hold points and slashes.
fn key(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(key, _)| key)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::super::tar::tests::archive;
    use super::super::tests::Tree;
    use super::super::{AudioSource, import};

    fn gzipped(text: &str) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap()
    }

    /// A cut as `CutSet.to_shar` of Lhotse 1.33 writes it.
    fn cut(id: &str, text: &str) -> String {
        let line = json!({
            "id": id, "start": 0, "duration": 1.5, "channel": 1, "type": "MonoCut",
            "supervisions": [{"id": id, "recording_id": "r", "start": 0.0, "duration": 1.5,
                              "channel": 1, "text": text, "speaker": "anna"}],
            "recording": {"id": "r", "sources": [{"type": "shar", "channels": [1], "source": ""}],
                          "sampling_rate": 16000, "num_samples": 24000, "duration": 1.5, "channel_ids": [1]},
            "custom": {"dataloading_info": {"rank": 0}}
        });
        format!("{line}\n")
    }

    #[test]
    fn a_cut_is_the_member_of_its_id_in_the_shard_of_its_number() {
        let tree = Tree::new(&[]);
        tree.write("s/cuts.000000.jsonl.gz", &gzipped(&(cut("a.1/x", "one") + &cut("b", "two"))));
        tree.write(
            "s/recording.000000.tar",
            &archive(&[
                ("a.1/x.flac", b"A"),
                ("a.1/x.json", b"{}"),
                ("b.flac", b"BB"),
                ("b.json", b"{}"),
            ]),
        );
        tree.write("s/cuts.000001.jsonl.gz", &gzipped(&cut("c", "three")));
        tree.write("s/recording.000001.tar", &archive(&[("c.wav", b"C"), ("c.json", b"{}")]));
        tree.write("s/features.000001.tar", &archive(&[("c.llc", b"C")]));
        let found = tree.facts("s");
        let seen: Vec<_> =
            found.iter().map(|f| (f.0.as_str(), f.2.as_str(), f.3, f.4, f.6)).collect();
        let want = [("a.1/x", "one"), ("b", "two"), ("c", "three")];
        assert_eq!(seen, want.map(|(id, text)| (id, text, Some(1.5), None, None)));
        let AudioSource::Member { tar, name, span } = &found[1].1 else { panic!("{found:?}") };
        assert_eq!(
            (tar, name.as_str(), span.len),
            (&tree.path("s/recording.000000.tar"), "b.flac", 2)
        );
        let imported = import(&tree.path("s"), &tree.path("m.jsonl")).unwrap();
        assert_eq!((imported.kind.as_str(), imported.utterances), ("Lhotse Shar", 3));
        assert_eq!(tree.facts("m.jsonl"), found);
    }

    #[test]
    fn broken_shards_are_named() {
        let tree = Tree::new(&[]);
        tree.write("s/cuts.000000.jsonl.gz", &gzipped(&(cut("a", "one") + "{}\n")));
        tree.write("s/recording.000000.tar", &archive(&[("b.flac", b"A")]));
        tree.write("s/cuts.000001.jsonl.gz", &gzipped(&cut("c", "three")));
        tree.write("s/recording.000001.tar", b"");
        let error = tree.error("s");
        for want in [
            "cuts.000000.jsonl.gz:1: cut \"a\" has no recording in recording.000000.tar",
            "cuts.000000.jsonl.gz:2: cut \"\" has no recording (features alone",
            "recording.000001.tar: at byte 0 it ends without the mark of its end",
        ] {
            assert!(error.contains(want), "{want}: {error}");
        }
        // A cut of Shar away from its shard says so.
        tree.write("alone.jsonl", cut("a", "one").as_bytes());
        assert!(
            tree.error("alone.jsonl").contains("name the directory"),
            "{}",
            tree.error("alone.jsonl")
        );
    }
}
