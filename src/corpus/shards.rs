//! Recordings inside tar files, read where they lie: WebDataset shards (`KEY.wav` beside `KEY.txt` or
//! `KEY.json`), and NeMo's tarred data sets (a manifest with `shard_id` beside `audio_N.tar`). Each tar
//! file is looked through once, by its headers; importing writes the places down, so that it need not be
//! again. Samples without audio or without a transcript are left out and counted.
//! <https://github.com/webdataset/webdataset#the-webdataset-format>

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, btree_map};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use serde::Deserialize;

use super::build::{Builder, Entry, Malformed};
use super::json::from_json;
use super::jsonl::{self, Name};
use super::kind::is_audio;
use super::lines::{self, Parsed};
use super::tar::{self, Member};
use super::{Fault, Manifest, ManifestError, Span, pattern};

/// Tar files looked through at once.
const GROUP_LEN: usize = 32;

/// Longer transcripts are no transcripts.
const MAX_TEXT_LEN: u64 = 1 << 20;

const EXPECTED: &str = "a sample is an audio file and a .txt or .json of one name, such as a.wav and a.txt; the .json is an object with \"text\"";

/// What one sample says.
struct Sample {
    audio: Member,
    text: String,
    details: Details,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(alias = "transcript", alias = "sentence")]
    text: Option<String>,
    duration: Option<f64>,
    speaker: Option<OwnedName>,
}

struct OwnedName(String);

impl<'de> Deserialize<'de> for OwnedName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Name::deserialize(deserializer).map(|name| OwnedName(name.0.into_owned()))
    }
}

enum Found {
    Sample(Box<Sample>),
    Skip(&'static str),
    Malformed(String),
}

/// Reads the shards at `tars`; `path` is what the user named, and where relative names start.
pub(super) fn read_webdataset(
    path: &Path,
    tars: &[PathBuf],
) -> Result<Arc<Manifest>, ManifestError> {
    let base = match pattern::is_pattern(path) {
        true => pattern::fixed_folder(path),
        false if path.is_dir() => path.to_owned(),
        false => path.parent().unwrap_or(Path::new("")).to_owned(),
    };
    let mut builder = Builder::new(&base, EXPECTED);
    for group in tars.chunks(GROUP_LEN) {
        let found: Vec<io::Result<Vec<Found>>> = group.par_iter().map(|tar| samples(tar)).collect();
        for (tar, found) in group.iter().zip(found) {
            builder.start_source(tar);
            let name = tar.strip_prefix(&base).unwrap_or(tar).to_str();
            match (name, found) {
                (Some(name), Ok(found)) => push_samples(&mut builder, name, found),
                (None, _) => builder.fault(whole_file(tar, "its name is not UTF-8; rename it")),
                (_, Err(error)) => builder.fault(whole_file(tar, error.to_string())),
            }
        }
    }
    builder.finish(path)
}

fn whole_file(path: &Path, reason: impl Into<String>) -> Fault {
    Fault { path: path.into(), line: None, column: None, reason: reason.into() }
}

fn push_samples(builder: &mut Builder, tar: &str, found: Vec<Found>) {
    for (at, found) in found.into_iter().enumerate() {
        match found {
            Found::Sample(sample) => builder.push(
                at + 1,
                &Entry {
                    audio: Cow::Borrowed(tar),
                    text: Cow::Owned(sample.text),
                    duration_s: sample.details.duration,
                    speaker: sample.details.speaker.map(|name| Cow::Owned(name.0)),
                    member: Some((Cow::Owned(sample.audio.name), sample.audio.span)),
                    ..Entry::default()
                },
            ),
            Found::Skip(reason) => builder.skip_line(reason, at + 1),
            Found::Malformed(reason) => builder.malformed(at + 1, Malformed::new(reason)),
        }
    }
}

/// The part of a member's name that a sample shares, and the extension: the name is cut at the first
/// point behind the last slash.
fn key_and_extension(name: &str) -> (&str, &str) {
    let base = name.rfind('/').map_or(0, |at| at + 1);
    match name[base..].find('.') {
        Some(point) => (&name[..base + point], &name[base + point + 1..]),
        None => (name, ""),
    }
}

/// The samples of a tar file, in order: members that share a key follow each other.
fn samples(path: &Path) -> io::Result<Vec<Found>> {
    let is_text = |name: &str| matches!(key_and_extension(name).1, "txt" | "json");
    let members = tar::index(path, |name| is_text(name) || is_audio(name))?;
    let mut file = File::open(path)?;
    let groups =
        members.chunk_by(|a, b| key_and_extension(&a.name).0 == key_and_extension(&b.name).0);
    Ok(groups.map(|group| sample(&mut file, group)).collect())
}

fn sample(file: &mut File, group: &[Member]) -> Found {
    let mut audio: Option<&Member> = None;
    let (mut text, mut details) = (None, Details::default());
    for member in group {
        let read = |file: &mut File| read_text(file, member.span);
        let is_read = match key_and_extension(&member.name).1 {
            "txt" => {
                read(file).and_then(|bytes| plain_text(&bytes)).map(|found| text = Some(found))
            }
            "json" => read(file)
                .and_then(|bytes| from_json(&bytes, &[]).map_err(|malformed| malformed.reason))
                .map(|found| details = found),
            _ => match audio.replace(member) {
                None => Ok(()),
                Some(first) => {
                    Err(format!("it is the second recording of its sample, after {:?}", first.name))
                }
            },
        };
        if let Err(reason) = is_read {
            return Found::Malformed(format!("{}: {reason}", member.name));
        }
    }
    match (audio, text.or_else(|| details.text.take())) {
        (None, _) => Found::Skip("sample without a recording"),
        (_, None) => Found::Skip("sample without a transcript"),
        (Some(audio), Some(text)) => {
            Found::Sample(Box::new(Sample { audio: audio.clone(), text, details }))
        }
    }
}

/// The bytes of a transcript.
fn read_text(file: &mut File, span: Span) -> Result<Vec<u8>, String> {
    if span.len > MAX_TEXT_LEN {
        return Err(format!("it has {} bytes, expected at most {MAX_TEXT_LEN}", span.len));
    }
    span.read_from(file).map_err(|error| error.to_string())
}

/// The file's text without the line end of its last line.
fn plain_text(bytes: &[u8]) -> Result<String, String> {
    let text = lines::utf8(bytes).map_err(|malformed| malformed.reason)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads manifests whose lines have `shard_id`; `path` is what the user named.
pub(super) fn read_nemo(
    path: &Path,
    manifests: &[PathBuf],
) -> Result<Arc<Manifest>, ManifestError> {
    let mut builder = Builder::new(Path::new(""), jsonl::EXPECTED);
    let mut shards: Option<Shards> = None;
    for manifest in manifests {
        let folder = manifest.parent().unwrap_or(Path::new(""));
        let shards = match &mut shards {
            Some(shards) if shards.beside == folder => shards,
            shards => shards.insert(Shards::beside(folder)?),
        };
        builder.start_source(manifest);
        let failed = |source| ManifestError::Read { path: manifest.clone(), source };
        let mut reader = lines::open(manifest).map_err(failed)?;
        lines::for_each(&mut reader, jsonl::parse, |line, parsed| {
            let placed = parsed.and_then(|parsed| match parsed {
                Parsed::Utterance(entry) => shards.place(entry),
                Parsed::Skip(reason) => Err(Malformed::new(reason)),
            });
            match placed {
                Ok(entry) => builder.push(line, &entry),
                Err(malformed) => builder.malformed(line, malformed),
            }
        })
        .map_err(failed)?;
    }
    builder.finish(path)
}

/// The tar files of a NeMo data set and what was found in them.
struct Shards {
    /// The folder of the manifest.
    beside: PathBuf,
    folder: PathBuf,
    /// Paths by the number at their end; several are several data sets in one folder.
    names: HashMap<u64, Vec<String>>,
    /// Sorted by [`stem`].
    members: BTreeMap<u64, Vec<Member>>,
}

impl Shards {
    /// Finds them beside the manifest, or one folder above (`sharded_manifests/manifest_0.json`).
    fn beside(folder: &Path) -> Result<Shards, ManifestError> {
        let beside = folder.to_owned();
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        for folder in [folder.to_owned(), folder.join("..")] {
            let mut names: HashMap<u64, Vec<String>> = HashMap::new();
            let listed = super::kind::tars_in(&folder)
                .map_err(|source| ManifestError::Read { path: folder.clone(), source })?;
            for tar in listed {
                let name = tar.to_str();
                let number = tar.file_stem().and_then(|stem| stem.to_str()).and_then(number_at_end);
                if let (Some(name), Some(number)) = (name, number) {
                    names.entry(number).or_default().push(name.to_owned());
                }
            }
            if !names.is_empty() {
                return Ok(Shards { beside, folder, names, members: BTreeMap::new() });
            }
        }
        Err(ManifestError::Kind {
            path: folder.into(),
            reason: "the manifest's lines have \"shard_id\", but neither beside it nor one folder above is an audio_N.tar; put the manifest beside its tar files".into(),
        })
    }

    /// The entry with its place in its tar file.
    fn place<'a>(&mut self, entry: Entry<'a>) -> Result<Entry<'a>, Malformed> {
        let Some(shard) = entry.shard else {
            return Err(Malformed::new("no key \"shard_id\", which other lines have"));
        };
        let names = self.names.get(&shard).map(Vec::as_slice).unwrap_or_default();
        let [tar] = names else {
            return Err(Malformed::new(format!(
                "\"shard_id\" is {shard}, and {} tar files in {} have that number: {names:?}",
                names.len(),
                self.folder.display()
            )));
        };
        let tar = tar.clone();
        let members = match self.members.entry(shard) {
            btree_map::Entry::Occupied(known) => known.into_mut(),
            btree_map::Entry::Vacant(place) => {
                let mut members = tar::index(Path::new(&tar), is_audio)
                    .map_err(|error| Malformed::new(format!("{tar}: {error}")))?;
                members.sort_by(|a, b| stem(&a.name).cmp(stem(&b.name)));
                place.insert(members)
            }
        };
        // NeMo compares names without folders and extensions.
        let wanted = stem(&entry.audio);
        let first = members.partition_point(|member| stem(&member.name) < wanted);
        let alike: Vec<&Member> =
            members[first..].iter().take_while(|member| stem(&member.name) == wanted).collect();
        let exact = alike.iter().find(|member| member.name == entry.audio);
        let member = match (exact, alike.as_slice()) {
            (Some(member), _) => member,
            (None, [member]) => member,
            (None, alike) => {
                return Err(Malformed::new(format!(
                    "{} members of {tar} are called {:?}",
                    alike.len(),
                    entry.audio
                )));
            }
        };
        let member = Some((Cow::Owned(member.name.clone()), member.span));
        Ok(Entry { audio: Cow::Owned(tar), member, ..entry })
    }
}

/// A file's name without folders and the extension.
fn stem(name: &str) -> &str {
    let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

fn number_at_end(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    text[text.len() - digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::AudioSource;
    use super::super::tar::tests::archive;
    use super::super::tests::{Facts, Tree, facts};
    use super::super::{import, read};
    use super::*;
    use crate::audio;
    use crate::audio::tests::{MONO_16K, Scratch, tone};

    fn member_bytes(facts: &Facts) -> Vec<u8> {
        let AudioSource::Member { tar, span, .. } = &facts.1 else { panic!("{facts:?}") };
        span.read_from(&mut File::open(tar).unwrap()).unwrap()
    }

    #[test]
    fn a_sample_is_a_recording_and_its_transcript() {
        let tree = Tree::new(&[]);
        tree.write(
            "s/shard-0.tar",
            &archive(&[
                ("a/1.wav", b"first"),
                ("a/1.txt", b"one \n"),
                ("2.v1.flac", b"x"),
                (
                    "2.json",
                    b"{\"text\": \"two\", \"duration\": 2.5, \"speaker\": 7, \"other\": [1]}",
                ),
                ("3.txt", b"alone"),
                ("4.wav", b"alone"),
                ("4.cls", b"5"),
            ]),
        );
        tree.write("s/shard-1.tar", &archive(&[("2.mp3", b"y"), ("2.txt", b"again")]));
        let found = tree.facts("s");
        let seen: Vec<_> =
            found.iter().map(|f| (f.0.as_str(), f.2.as_str(), f.3, f.5.as_deref())).collect();
        let want = [
            ("1", "one ", None, None),
            ("2.v1", "two", Some(2.5), Some("7")),
            ("2", "again", None, None),
        ];
        assert_eq!(seen, want);
        assert_eq!(member_bytes(&found[0]), b"first");
        assert_eq!(found[2].1.name(), tree.path("s/shard-1.tar/2.mp3"));
        let manifest = read(&tree.path("s")).unwrap();
        let skipped: Vec<_> = manifest.skipped().iter().map(|s| (s.count, s.reason)).collect();
        assert_eq!(
            skipped,
            [(1, "sample without a recording"), (1, "sample without a transcript")]
        );
        assert_eq!(tree.facts("s/shard-1.tar").len(), 1, "one shard alone");
    }

    #[test]
    fn keys_that_several_shards_have_get_the_shards_name() {
        let tree = Tree::new(&[]);
        for shard in 0..3 {
            tree.write(&format!("s-{shard}.tar"), &archive(&[("1.wav", b"x"), ("1.txt", b"a")]));
        }
        let ids: Vec<String> = tree.facts("").into_iter().map(|facts| facts.0).collect();
        assert_eq!(ids, ["1", "s-1-1", "s-2-1"]);
    }

    #[test]
    fn broken_samples_and_shards_are_named() {
        let tree = Tree::new(&[]);
        let sound = archive(&[("1.wav", b"x"), ("1.txt", b"a")]);
        tree.write("s-0.tar", &archive(&[("1.wav", b"x"), ("1.json", b"{\"text\": 3}")]));
        tree.write("s-1.tar", &archive(&[("1.wav", b"x"), ("1.flac", b"x"), ("1.txt", b"a")]));
        tree.write("s-2.tar", &archive(&[("1.wav", b"x"), ("1.txt", b"\xff")]));
        tree.write("s-3.tar", &sound[..700]);
        let error = tree.error("");
        for want in [
            "s-0.tar:1: 1.json: \"text\" is 3, expected a text in double quotes",
            "s-1.tar:1: 1.flac: it is the second recording of its sample, after \"1.wav\"",
            "s-2.tar:1: 1.txt: the line is not UTF-8",
            "s-3.tar: at byte 700 it ends without the mark of its end",
        ] {
            assert!(error.contains(want), "{want}: {error}");
        }
        tree.write("t/x.tar.gz", &{
            use std::io::Write as _;
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&sound).unwrap();
            gzip.finish().unwrap()
        });
        assert!(tree.error("t/x.tar.gz").contains("gunzip"));
    }

    #[test]
    fn nemo_shards_are_found_by_number_and_members_by_stem() {
        let tree = Tree::new(&[]);
        tree.write("t/audio_0.tar", &archive(&[("x_a.wav", b"a"), ("b.wav", b"b")]));
        tree.write("t/audio_1.tar", &archive(&[("b.flac", b"c"), ("b-sub1.flac", b"d")]));
        let line = |audio: &str, shard: u64| {
            format!(
                "{{\"audio_filepath\":\"{audio}\",\"duration\":1.0,\"text\":\"{audio}\",\"shard_id\":{shard}}}\n"
            )
        };
        let text =
            line("x_a.wav", 0) + &line("b.wav", 1) + &line("b.wav", 0) + &line("b-sub1.wav", 1);
        tree.write("t/tarred_audio_manifest.json", text.as_bytes());
        tree.write("t/sharded_manifests/manifest.json", text.as_bytes());
        for name in ["t", "t/tarred_audio_manifest.json", "t/sharded_manifests/manifest.json"] {
            let bytes: Vec<Vec<u8>> = tree.facts(name).iter().map(member_bytes).collect();
            assert_eq!(bytes, [b"a", b"c", b"b", b"d"]);
        }
        tree.write("t/m.json", (line("none.wav", 0) + &line("b.wav", 7)).as_bytes());
        let error = tree.error("t/m.json");
        assert!(
            error.contains("m.json:1: 0 members of t/audio_0.tar are called \"none.wav\""),
            "{error}"
        );
        assert!(error.contains("m.json:2: \"shard_id\" is 7, and 0 tar files"), "{error}");
        tree.write("u/m.json", line("a.wav", 0).as_bytes());
        assert!(tree.error("u/m.json").contains("put the manifest beside its tar files"));
    }

    #[test]
    fn patterns_name_shards_and_sharded_manifests() {
        let tree = Tree::new(&[]);
        let line = |name: &str, shard: u64| {
            format!(
                "{{\"audio_filepath\":\"{name}.wav\",\"duration\":1.0,\"text\":\"t\",\"shard_id\":{shard}}}\n"
            )
        };
        for shard in 0..3 {
            let name = |i| format!("{shard}-{i}.wav");
            let (a, b) = (name(0), name(1));
            let text = name(0).replace("wav", "txt");
            let bytes = archive(&[(&a, b"a"), (&text, b"t"), (&b, b"b")]);
            tree.write(&format!("n/b{}/audio_{shard}.tar", shard / 2), &bytes);
            let lines = line(&format!("{shard}-1"), shard) + &line(&format!("{shard}-0"), shard);
            tree.write(&format!("n/b{}/manifest_{shard}.json", shard / 2), lines.as_bytes());
        }
        let ids = |name: &str| tree.facts(name).into_iter().map(|f| f.0).collect::<Vec<_>>();
        assert_eq!(ids("n/b0/audio_{0..1}.tar"), ["0-0", "1-0"]);
        assert_eq!(ids("n/b0/audio__OP_0..1_CL_.tar"), ["0-0", "1-0"]);
        assert_eq!(ids("n/b0/manifest_{0..1}.json"), ["0-1", "0-0", "1-1", "1-0"]);
        tree.write("n/c0/x.tar", &archive(&[("c.wav", b"c"), ("c.txt", b"t")]));
        tree.write("n/c1/x.tar", &archive(&[("d.wav", b"d"), ("d.txt", b"t")]));
        assert_eq!(ids("n/c{0..1}/x.tar"), ["c", "d"]);
        let tars: Vec<_> = tree.facts("n/c{0..1}/x.tar").into_iter().map(|f| f.1.name()).collect();
        assert_eq!(tars, [tree.path("n/c0/x.tar/c.wav"), tree.path("n/c1/x.tar/d.wav")]);
        // Sharded manifests of several folders, each beside its tar files.
        tree.write("n/b1/manifest_1.json", line("2-0", 2).as_bytes());
        tree.write("n/b0/manifest_1.json", line("1-0", 1).as_bytes());
        let found = tree.facts("n/b{0,1}/manifest_1.json");
        assert_eq!(member_bytes(&found[1]), b"a");
        assert_eq!(found[1].1.name(), tree.path("n/b1/audio_2.tar/2-0.wav"));
        let error = tree.error("n/b0/audio_{0..9}.tar");
        assert!(
            error.contains("8 of its 10 files are not there") && error.contains("audio_2.tar"),
            "{error}"
        );
        tree.write("n/e{0..1}.tar", &archive(&[("e.wav", b"c"), ("e.txt", b"t")]));
        assert_eq!(ids("n/e{0..1}.tar"), ["e"], "a file that is called so");
        tree.write("n/k{0.txt", b"");
        assert!(tree.error("n/l{0.txt").contains("does not close it"));
    }

    #[test]
    fn a_shards_recordings_are_heard_and_imported_as_they_were() {
        let scratch = Scratch::new("shards");
        let wav = scratch.wav("a.wav", 16_000, &[&tone(300.0, 16_000, 2_000)]);
        let bytes = std::fs::read(&wav).unwrap();
        let tree = Tree::new(&[]);
        tree.write("s/s.tar", &archive(&[("k.txt", b"hello"), ("k.wav", &bytes)]));
        let destination = tree.path("m.jsonl");
        import(&tree.path("s"), &destination).unwrap();
        let imported = facts(&read(&destination).unwrap());
        assert_eq!(imported, tree.facts("s"));
        let heard = imported[0].1.read(None, None, &MONO_16K).unwrap();
        assert_eq!(heard, audio::read(&wav, None, None, &MONO_16K).unwrap());
    }
}
