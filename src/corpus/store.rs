//! Manifests in memory: one text for all strings, one fixed-size record an utterance, and each folder
//! and each speaker once. An [`Utterance`] is a handle of 16 bytes, a [`Manifest`] costs 64 bytes an
//! utterance beyond its strings (16 more inside tar files), so that millions fit beside the model.
//!
//! Built by [`super::build`]; nothing changes afterwards.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{AudioSource, Span};

/// No speaker, no channel.
pub(super) const NO_SPEAKER: u32 = u32::MAX;
pub(super) const NO_CHANNEL: u16 = u16::MAX;

/// The utterances of one manifest, data directory, table, tree or set of shards.
#[derive(Default)]
pub struct Manifest {
    /// `name`, `text` and (where the name does not hold it) `id` of each record, one after the other.
    pub(super) arena: String,
    pub(super) records: Vec<Record>,
    /// One a record as soon as one of them lies in a tar file, else none.
    pub(super) spans: Vec<Span>,
    /// Folders of recordings; tar files.
    pub(super) folders: Vec<PathBuf>,
    pub(super) speakers: Vec<Box<str>>,
    /// The files that the records were read from.
    pub(super) sources: Vec<PathBuf>,
    pub(super) skipped: Vec<Skipped>,
}

/// What was left out while reading, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub count: usize,
    /// The first of them.
    pub first: String,
}

/// Absent times are NaN: `Option<f64>` takes twice the room.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub start: u64,
    pub id_start: u64,
    pub duration_s: f64,
    pub offset_s: f64,
    pub text_len: u32,
    pub folder: u32,
    pub speaker: u32,
    pub source: u32,
    pub line: u32,
    pub name_len: u16,
    pub id_len: u16,
    pub channel: u16,
    /// Whether the source gave the id.
    pub is_named: bool,
}

const _: () = assert!(size_of::<Record>() == 64 && size_of::<Utterance>() == 16);

impl Manifest {
    /// Utterances in it.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none (never, for one that was read).
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// What the source holds beside its utterances.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Distinct speakers.
    pub fn num_speakers(&self) -> usize {
        self.speakers.len()
    }

    /// The utterances in the order of the source.
    pub fn utterances(self: &Arc<Self>) -> impl ExactSizeIterator<Item = Utterance> + use<> {
        let manifest = Arc::clone(self);
        let len = u32::try_from(manifest.len()).expect("the builder refuses more than u32 counts");
        (0..len).map(move |index| Utterance { manifest: Arc::clone(&manifest), index })
    }

    /// The heap that it holds.
    pub fn heap_bytes(&self) -> usize {
        let texts = self.speakers.iter().map(|speaker| speaker.len() + size_of::<Box<str>>());
        let paths = self.folders.iter().map(|path| path.as_os_str().len() + size_of::<PathBuf>());
        self.arena.capacity()
            + self.records.capacity() * size_of::<Record>()
            + self.spans.capacity() * size_of::<Span>()
            + texts.chain(paths).sum::<usize>()
    }

    pub(super) fn id_of(&self, record: &Record) -> &str {
        self.slice(record.id_start, usize::from(record.id_len))
    }

    fn slice(&self, start: u64, len: usize) -> &str {
        let start = usize::try_from(start).expect("the text is in memory");
        &self.arena[start..start + len]
    }
}

/// One recording, or a part of one, and what is said in it.
#[derive(Clone)]
pub struct Utterance {
    manifest: Arc<Manifest>,
    index: u32,
}

impl Utterance {
    fn record(&self) -> &Record {
        &self.manifest.records[self.index as usize]
    }

    /// Unique in its manifest; without blanks, commas or parentheses when it was made here.
    pub fn id(&self) -> &str {
        self.manifest.id_of(self.record())
    }

    /// The transcript as written.
    pub fn text(&self) -> &str {
        let record = self.record();
        self.manifest.slice(record.start + u64::from(record.name_len), record.text_len as usize)
    }

    /// Where the recording is.
    pub fn audio(&self) -> AudioSource {
        let record = self.record();
        let folder = &self.manifest.folders[record.folder as usize];
        let name = self.manifest.slice(record.start, usize::from(record.name_len));
        match self.manifest.spans.get(self.index as usize) {
            Some(&span) if !span.is_empty() => {
                AudioSource::Member { tar: folder.clone(), name: name.to_owned(), span }
            }
            _ => AudioSource::File(folder.join(name)),
        }
    }

    /// The duration that the manifest claims.
    pub fn duration_s(&self) -> Option<f64> {
        Some(self.record().duration_s).filter(|seconds| !seconds.is_nan())
    }

    /// Where the utterance starts in its recording; without one it is the whole recording.
    pub fn offset_s(&self) -> Option<f64> {
        Some(self.record().offset_s).filter(|seconds| !seconds.is_nan())
    }

    /// Who speaks.
    pub fn speaker(&self) -> Option<&str> {
        self.manifest.speakers.get(self.record().speaker as usize).map(AsRef::as_ref)
    }

    /// The channel of the recording, counted from 0, where the manifest says so.
    pub fn channel(&self) -> Option<u16> {
        Some(self.record().channel).filter(|channel| *channel != NO_CHANNEL)
    }

    /// The file that says so: a manifest, a transcript of a tree, a tar file.
    pub fn manifest(&self) -> &Path {
        &self.manifest.sources[self.record().source as usize]
    }

    /// The line in it, or the sample of a tar file, counted from 1.
    pub fn line(&self) -> usize {
        self.record().line as usize
    }

    /// `path:line`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.manifest().display(), self.line())
    }
}

impl fmt::Debug for Utterance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Utterance")
            .field("id", &self.id())
            .field("audio", &self.audio())
            .field("text", &self.text())
            .field("duration_s", &self.duration_s())
            .field("offset_s", &self.offset_s())
            .field("speaker", &self.speaker())
            .field("channel", &self.channel())
            .field("place", &self.place())
            .finish()
    }
}
