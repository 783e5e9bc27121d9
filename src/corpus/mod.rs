//! What people have instead of manifests: every way of listing utterances that is read here gives the
//! same [`Utterance`]s. The kind is told by content; each has its reader; [`import()`] writes any of them
//! as JSON lines.
//!
//! Whatever is not an utterance is counted with its reason ([`Skipped`]); what is broken is listed by kind,
//! each with its count and first places ([`ManifestError`]).

mod build;
mod error;
mod import;
mod json;
mod jsonl;
mod kaldi;
mod kind;
mod lhotse;
mod librispeech;
mod lines;
mod pattern;
mod quotes;
mod roots;
mod shar;
mod shards;
mod source;
mod store;
mod table;
mod tar;
mod tar_reader;
mod written;

pub use error::{Fault, Faults, ManifestError};
pub use import::{ImportError, Imported, import};
pub use source::{AudioSource, Span};
pub use store::{Manifest, Skipped, Utterance};
pub use tar_reader::{ReadCounts, TarReader};
pub use written::Writer;

pub(crate) use build::Malformed;
pub(crate) use json::{AUDIO, from_json};
pub(crate) use kind::refuse_recording;
pub(crate) use lines::lines_of;
#[cfg(test)]
pub(crate) use tar::tests::archive;

use std::path::Path;
use std::sync::Arc;

use kind::Kind;

/// Reads a manifest, data directory, table, tree or set of shards, whatever its kind.
///
/// # Errors
/// See [`ManifestError`].
pub fn read(path: &Path) -> Result<Arc<Manifest>, ManifestError> {
    read_as(path, &kind::tell(path)?)
}

fn read_as(path: &Path, kind: &Kind) -> Result<Arc<Manifest>, ManifestError> {
    match kind {
        Kind::Jsonl(files) => jsonl::read(path, files),
        Kind::NemoTarred(manifests) => shards::read_nemo(path, manifests),
        Kind::Lhotse => lhotse::read(path),
        Kind::Shar(shards) => shar::read(path, shards),
        Kind::Kaldi => kaldi::read(path),
        Kind::Table(separator) => table::read(path, *separator),
        Kind::LjSpeech(table) => table::read_ljspeech(table),
        Kind::LibriSpeech(tree) => librispeech::read(path, tree),
        Kind::WebDataset(tars) => shards::read_webdataset(path, tars),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// What an utterance says, apart from where it is said.
    pub(super) type Facts =
        (String, AudioSource, String, Option<f64>, Option<f64>, Option<String>, Option<u16>);

    pub(super) fn facts(manifest: &Arc<Manifest>) -> Vec<Facts> {
        let facts = |utterance: Utterance| {
            (
                utterance.id().to_owned(),
                utterance.audio(),
                utterance.text().to_owned(),
                utterance.duration_s(),
                utterance.offset_s(),
                utterance.speaker().map(str::to_owned),
                utterance.channel(),
            )
        };
        manifest.utterances().map(facts).collect()
    }

    /// A directory with files, removed when dropped.
    pub(super) struct Tree(TempDir);

    impl Tree {
        pub fn new(files: &[(&str, &str)]) -> Tree {
            let tree = Tree(tempfile::tempdir().unwrap());
            for (name, text) in files {
                tree.write(name, text.as_bytes());
            }
            tree
        }

        pub fn path(&self, name: &str) -> std::path::PathBuf {
            if name.is_empty() { self.0.path().to_owned() } else { self.0.path().join(name) }
        }

        pub fn write(&self, name: &str, bytes: &[u8]) -> std::path::PathBuf {
            let path = self.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path
        }

        pub fn facts(&self, name: &str) -> Vec<Facts> {
            facts(&read(&self.path(name)).unwrap())
        }

        /// The message without the directory's own name.
        pub fn error(&self, name: &str) -> String {
            let error = read(&self.path(name)).err().expect("it is refused").to_string();
            error.replace(&format!("{}/", self.path("").display()), "")
        }
    }

    #[test]
    fn what_is_no_manifest_says_what_it_is_and_what_would_be_one() {
        let tree = Tree::new(&[
            ("page.html", "<!DOCTYPE html>"),
            ("text", "a b c"),
            ("array.json", "[\n {\"audio_filepath\": \"a.wav\"},"),
            ("pretty.json", "{\n  \"audio_filepath\": \"a.wav\"\n}\n"),
            ("a.wav", "RIFF....WAVE"),
            ("sounds/a.flac", ""),
            ("listed/a.flac", ""),
            ("listed.jsonl", ""),
            ("semicolons.csv", "path;text\na.wav;a\n"),
            ("no-text.csv", "path,words\na.wav,a\n"),
            ("no-path.tsv", "recording\tsentence\na.wav\ta\n"),
            ("no-header.csv", "a.wav,hello\n"),
            ("empty/readme.md", "x"),
            ("scp/wav.scp", "a a.wav"),
            ("cv/train.tsv", "path\tsentence\n"),
            ("cv/dev.tsv", "path\tsentence\n"),
            ("packed/a.tar.gz", ""),
        ]);
        for (name, words) in [
            ("page.html", "starts with \"<!DOCTYPE html>\""),
            ("text", "name the directory"),
            ("array.json", "one JSON array"),
            ("sounds", "a directory of recordings (a.flac) without a list of them; expected JSON"),
            ("listed", "without a list of them; did you mean listed.jsonl?"),
            ("semicolons.csv", "its fields are set apart by ';'"),
            (
                "no-text.csv",
                "none of its columns is called \"text\": its header is [\"path\", \"words\"]",
            ),
            ("no-path.tsv", "none of its columns is called \"path\""),
            ("no-header.csv", "its first line [\"a.wav\", \"hello\"] is no header"),
            ("pretty.json", "jq -c .`"),
            (
                "a.wav",
                "a recording, not a list of recordings; write a file beside it with the line {\"audio_filepath\":\"a.wav\",",
            ),
            ("empty", "a directory of no kind known here"),
            ("scp", "without `text`"),
            ("cv", "such as dev.tsv, train.tsv"),
            ("packed", "decompress them with `gunzip`, such as a.tar.gz"),
            ("none.jsonl", "No such file"),
        ] {
            let error = tree.error(name);
            assert!(error.starts_with(&format!("{name}: cannot read the manifest: ")), "{error}");
            assert!(error.contains(words), "{name}: {error}");
        }
    }

    #[test]
    fn no_byte_changed_in_a_manifest_makes_it_panic() {
        let tree = Tree::new(&[("wavs/a.wav", ""), ("clips/a.mp3", "")]);
        let nemo = "{\"audio_filepath\":\"a.wav\",\"text\":\"a\",\"duration\":1.5,\"shard_id\":[1],\"channel\":0}\n";
        let cut = "{\"id\":\"c\",\"start\":0.5,\"duration\":1,\"channel\":0,\"supervisions\":[{\"text\":\"a\"}],\"recording\":{\"sources\":[{\"type\":\"file\",\"channels\":[0],\"source\":\"a.wav\"}],\"duration\":3},\"type\":\"MonoCut\"}";
        for text in
            [nemo, cut, "path\tsentence\na.mp3\tone\n", "path,text\n\"a,b\",c\n", "a|one|One\n"]
        {
            for at in 0..text.len() {
                for byte in [b'"', b'{', b'\n', b'|', b'\t', b'-', 0xff, 0] {
                    let mut bytes = text.as_bytes().to_vec();
                    bytes[at] = byte;
                    // Refused or read: both are right, and neither may panic.
                    drop(read(&tree.write("m", &bytes)));
                    drop(read(&tree.write("m.jsonl", &bytes[..at])));
                }
            }
        }
    }

    /// Resident memory of this process.
    fn resident_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// Writes a manifest of so many lines; returns the bytes of all ids, names and texts.
    fn synthetic(path: &Path, count: usize) -> usize {
        use std::io::Write as _;
        let mut out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
        let mut string_bytes = 0;
        for i in 0..count {
            let name = format!("{}-{:07}.flac", i % 2_484, i);
            let text: String = "the quick brown fox jumps over the lazy dog "
                .chars()
                .cycle()
                .skip(i % 44)
                .take(40 + i % 100)
                .collect();
            string_bytes += name.len() + text.len();
            writeln!(
                out,
                "{{\"audio_filepath\": \"audio/{}/{name}\", \"duration\": {}, \"text\": \"{text}\", \"speaker\": \"{}\"}}",
                i % 5_831,
                1.0 + (i % 3_000) as f64 / 100.0,
                i % 2_484
            )
            .unwrap();
        }
        out.into_inner().unwrap();
        string_bytes
    }

    #[test]
    fn an_utterance_takes_less_than_200_bytes_beyond_its_strings() {
        let tree = Tree::new(&[]);
        let path = tree.path("m.jsonl");
        let string_bytes = synthetic(&path, 50_000);
        let manifest = read(&path).unwrap();
        let handles = manifest.utterances().collect::<Vec<_>>().len() * size_of::<Utterance>();
        // The folders and speakers, which are many for so few utterances, count too.
        let each = (manifest.heap_bytes() + handles - string_bytes) as f64 / manifest.len() as f64;
        assert!(each < 100.0, "{each} bytes");
    }

    /// `cargo test --release --lib five_million -- --ignored --nocapture`, alone in its process.
    #[cfg(target_os = "linux")]
    #[test]
    #[ignore = "writes a manifest of 800 MB"]
    fn five_million_utterances_fit_in_memory() {
        const COUNT: usize = 5_000_000;
        let tree = Tree::new(&[]);
        let path = tree.path("m.jsonl");
        let string_bytes = synthetic(&path, COUNT);
        let before = resident_bytes();
        let start = std::time::Instant::now();
        let manifest = read(&path).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let utterances: Vec<Utterance> = manifest.utterances().collect();
        let taken = resident_bytes() - before;
        println!(
            "{COUNT} lines, {} MB: {seconds:.1} s, {:.0} bytes an utterance, {:.0} of them strings; the store counts {:.0}",
            std::fs::metadata(&path).unwrap().len() / 1_000_000,
            taken as f64 / COUNT as f64,
            string_bytes as f64 / COUNT as f64,
            manifest.heap_bytes() as f64 / COUNT as f64,
        );
        assert_eq!(utterances.len(), COUNT);
        assert!((taken - string_bytes) / COUNT < 200);
    }
}
