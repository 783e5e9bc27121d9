//! Manifests in memory: one text for all strings, one fixed-size record an utterance, and each folder
//! and each speaker once. An [`Utterance`] is a handle of 16 bytes, a [`Manifest`] costs 40 bytes an
//! utterance beyond its strings (8 more where recordings are cut by offsets, 16 inside tar files), so that
//! millions fit beside the model.
//!
//! Built by [`super::build`]; nothing changes afterwards.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{AudioSource, Span};

/// No speaker, no channel.
pub(super) const NO_SPEAKER: u32 = u32::MAX;
pub(super) const NO_CHANNEL: u16 = u16::MAX;

/// Where a record's id is, when it is not within the first bytes of its name: behind name and text, or
/// apart from them since the id was changed. See [`Record::id_at`].
pub(super) const ID_BEHIND: u16 = u16::MAX;
pub(super) const ID_APART: u16 = u16::MAX - 1;

/// The utterances of one manifest, data directory, table, tree or set of shards.
#[derive(Default)]
pub struct Manifest {
    /// `name`, `text` and (where the name does not hold it) `id` of each record, one after the other.
    pub(super) arena: String,
    pub(super) records: Vec<Record>,
    /// One a record as soon as one of them lies in a tar file, else none.
    pub(super) spans: Vec<Span>,
    /// One a record as soon as one of them starts within its recording, else none. NaN where it does not.
    pub(super) offsets_s: Vec<f64>,
    /// Ids that were changed, by record, and where they start.
    pub(super) ids_apart: Vec<(u32, u64)>,
    /// Folders of recordings; tar files.
    pub(super) folders: Vec<PathBuf>,
    pub(super) speakers: Vec<Box<str>>,
    /// The files that the records were read from, each with its first record.
    pub(super) sources: Vec<(PathBuf, u32)>,
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
    pub duration_s: f64,
    pub text_len: u32,
    pub folder: u32,
    pub speaker: u32,
    pub line: u32,
    pub name_len: u16,
    pub id_len: u16,
    /// Where the id starts in the name, most often; or [`ID_BEHIND`], [`ID_APART`].
    pub id_at: u16,
    pub channel: u16,
}

const _: () = assert!(size_of::<Record>() == 40 && size_of::<Utterance>() == 16);

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
            + self.offsets_s.capacity() * size_of::<f64>()
            + texts.chain(paths).sum::<usize>()
    }

    pub(super) fn id_of(&self, index: u32) -> &str {
        let record = &self.records[index as usize];
        let start = match record.id_at {
            ID_BEHIND => record.start + u64::from(record.name_len) + u64::from(record.text_len),
            ID_APART => {
                let at = self.ids_apart.partition_point(|(other, _)| *other < index);
                self.ids_apart[at].1
            }
            at => record.start + u64::from(at),
        };
        self.slice(start, usize::from(record.id_len))
    }

    /// The file that a record was read from.
    pub(super) fn source_of(&self, index: u32) -> &Path {
        let behind = self.sources.partition_point(|(_, first)| *first <= index);
        &self.sources[behind - 1].0
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
        self.manifest.id_of(self.index)
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

    /// The tar file that holds the recording, and its place there.
    pub fn member(&self) -> Option<(&Path, Span)> {
        let span = *self.manifest.spans.get(self.index as usize)?;
        let tar = &self.manifest.folders[self.record().folder as usize];
        (!span.is_empty()).then_some((tar.as_path(), span))
    }

    /// The duration that the manifest claims.
    pub fn duration_s(&self) -> Option<f64> {
        Some(self.record().duration_s).filter(|seconds| !seconds.is_nan())
    }

    /// Where the utterance starts in its recording; without one it is the whole recording.
    pub fn offset_s(&self) -> Option<f64> {
        let offset_s = self.manifest.offsets_s.get(self.index as usize).copied();
        offset_s.filter(|seconds| !seconds.is_nan())
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
        self.manifest.source_of(self.index)
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
