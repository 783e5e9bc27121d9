//! From the entries of any reader to a [`Manifest`]: the checks that all kinds share, ids that are
//! unique, and faults and omissions counted as they come.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexSet;
use rayon::prelude::*;

use super::error::Faults;
use super::store::{ID_APART, ID_BEHIND, NO_CHANNEL, NO_SPEAKER, Record};
use super::{Fault, Manifest, ManifestError, Skipped, Span};

/// More folders than this are not kept apart from the names in them: a folder an utterance would cost
/// more than it saves.
const MAX_FOLDERS: usize = 1 << 16;

/// What a reader makes of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entry<'a> {
    /// The recording as written; the tar file where `member` says so.
    pub audio: Cow<'a, str>,
    pub text: Cow<'a, str>,
    pub id: Option<Cow<'a, str>>,
    pub duration_s: Option<f64>,
    pub offset_s: Option<f64>,
    pub speaker: Option<Cow<'a, str>>,
    pub channel: Option<u16>,
    /// Name and place of the recording inside the tar file `audio`.
    pub member: Option<(Cow<'a, str>, Span)>,
    /// The number of the shard that holds `audio`, in a tarred data set of NeMo.
    pub shard: Option<u64>,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub column: Option<usize>,
    pub reason: String,
}

impl Malformed {
    pub fn new(reason: impl Into<String>) -> Malformed {
        Malformed { column: None, reason: reason.into() }
    }
}

pub(super) struct Builder {
    manifest: Manifest,
    /// Where relative recordings start.
    base: PathBuf,
    /// As written; the manifest has them joined to `base`.
    folders: IndexSet<Box<str>>,
    speakers: IndexSet<Box<str>>,
    /// Whether the source gave a record its id.
    is_named: Vec<bool>,
    faults: Faults,
    /// Whether one of the faults is of the kind that `way_out` helps with.
    is_malformed: bool,
    way_out: &'static str,
}

impl Builder {
    /// `way_out` says what a malformed line should have been.
    pub fn new(base: &Path, way_out: &'static str) -> Builder {
        Builder {
            manifest: Manifest::default(),
            base: base.to_owned(),
            folders: IndexSet::new(),
            speakers: IndexSet::new(),
            is_named: Vec::new(),
            faults: Faults::default(),
            is_malformed: false,
            way_out,
        }
    }

    /// Moves the start of relative recordings; to be called before the first entry.
    pub fn set_base(&mut self, base: PathBuf) {
        debug_assert!(self.folders.is_empty(), "folders already joined to the other base");
        self.base = base;
    }

    pub fn base(&self) -> &Path {
        &self.base
    }

    /// What follows was read from `path`.
    pub fn start_source(&mut self, path: &Path) {
        let first = self.manifest.records.len() as u32;
        // A source without an utterance is nobody's place.
        self.manifest.sources.pop_if(|(_, of_last)| *of_last == first);
        self.manifest.sources.push((path.to_owned(), first));
    }

    fn source(&self) -> &Path {
        self.manifest.sources.last().map_or(Path::new(""), |(path, _)| path)
    }

    /// Notes what is wrong with a line of the source.
    pub fn malformed(&mut self, line: usize, malformed: Malformed) {
        self.is_malformed = true;
        let Malformed { column, reason } = malformed;
        let path = self.source().to_owned();
        self.fault(Fault { path, line: Some(line), column, reason });
    }

    /// Notes anything else that is wrong.
    pub fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Counts something that is no utterance.
    pub fn skip(&mut self, reason: &'static str, first: impl FnOnce() -> String) {
        match self.manifest.skipped.iter_mut().find(|skipped| skipped.reason == reason) {
            Some(skipped) => skipped.count += 1,
            None => self.manifest.skipped.push(Skipped { reason, count: 1, first: first() }),
        }
    }

    /// Counts several at once.
    pub fn skip_many(&mut self, reason: &'static str, count: usize, first: String) {
        self.manifest.skipped.push(Skipped { reason, count, first });
    }

    /// [`Builder::skip`] for a line of the source.
    pub fn skip_line(&mut self, reason: &'static str, line: usize) {
        let place = format!("{}:{line}", self.source().display());
        self.skip(reason, || place);
    }

    /// Takes an entry, or notes what is wrong with it.
    pub fn push(&mut self, line: usize, entry: &Entry) {
        if let Err(malformed) = check(entry).and_then(|()| self.store(line, entry)) {
            self.malformed(line, malformed);
        }
    }

    fn store(&mut self, line: usize, entry: &Entry) -> Result<(), Malformed> {
        let too_long = |what: &str, len: usize| {
            Malformed::new(format!("{what} has {len} bytes, more than any file system allows"))
        };
        let too_many = |_| Malformed::new("more than 4 billion lines are not supported");
        let (folder, name): (&str, &str) = match &entry.member {
            Some((name, _)) => (&entry.audio, name),
            None => match entry.audio.rsplit_once('/') {
                _ if self.folders.len() >= MAX_FOLDERS => ("", &entry.audio),
                Some(("", name)) => ("/", name),
                Some((folder, name)) => (folder, name),
                None => ("", &entry.audio),
            },
        };
        let made;
        let id: &str = match &entry.id {
            Some(id) => id,
            None => {
                made = default_id(name, entry.offset_s);
                &made
            }
        };
        // Most ids are a part of the name.
        let id_at = name.find(id).and_then(|at| u16::try_from(at).ok());
        let id_at = id_at.filter(|at| *at < ID_APART);
        let record = Record {
            start: self.manifest.arena.len() as u64,
            duration_s: entry.duration_s.map_or(f64::NAN, to_nanoseconds),
            text_len: u32::try_from(entry.text.len())
                .map_err(|_| Malformed::new("the transcript has more than 4 GiB"))?,
            folder: self.folder(folder),
            speaker: entry.speaker.as_deref().map_or(NO_SPEAKER, |speaker| self.speaker(speaker)),
            line: u32::try_from(line).map_err(too_many)?,
            name_len: u16::try_from(name.len())
                .map_err(|_| too_long("the name of the recording", name.len()))?,
            id_len: u16::try_from(id.len()).map_err(|_| too_long("the id", id.len()))?,
            id_at: id_at.unwrap_or(ID_BEHIND),
            channel: entry.channel.unwrap_or(NO_CHANNEL),
        };
        let manifest = &mut self.manifest;
        u32::try_from(manifest.records.len() + 1).map_err(too_many)?;
        manifest.arena.push_str(name);
        manifest.arena.push_str(&entry.text);
        if id_at.is_none() {
            manifest.arena.push_str(id);
        }
        let span = entry.member.as_ref().map(|(_, span)| *span);
        extend(&mut manifest.spans, manifest.records.len(), span, Span::EMPTY);
        let offset_s = entry.offset_s.map(to_nanoseconds);
        extend(&mut manifest.offsets_s, manifest.records.len(), offset_s, f64::NAN);
        manifest.records.push(record);
        self.is_named.push(entry.id.is_some());
        Ok(())
    }

    fn folder(&mut self, folder: &str) -> u32 {
        if let Some(at) = self.folders.get_index_of(folder) {
            return at as u32;
        }
        self.manifest.folders.push(self.base.join(folder));
        self.folders.insert_full(folder.into()).0 as u32
    }

    fn speaker(&mut self, speaker: &str) -> u32 {
        match self.speakers.get_index_of(speaker) {
            Some(at) => at as u32,
            None => self.speakers.insert_full(speaker.into()).0 as u32,
        }
    }

    /// The manifest, or all that is wrong with it. `path` is what the user named.
    ///
    /// # Errors
    /// [`ManifestError::Faults`] or [`ManifestError::Empty`].
    pub fn finish(mut self, path: &Path) -> Result<Arc<Manifest>, ManifestError> {
        if self.faults.total() == 0 {
            self.settle_ids();
        }
        if self.faults.total() > 0 {
            let way_out = if self.is_malformed { self.way_out } else { "" };
            return Err(ManifestError::Faults { path: path.into(), faults: self.faults, way_out });
        }
        let mut manifest = self.manifest;
        if manifest.is_empty() {
            let skipped = manifest.skipped.iter().map(|skipped| {
                format!(
                    "; {} left out: {} (first: {})",
                    skipped.count, skipped.reason, skipped.first
                )
            });
            return Err(ManifestError::Empty { path: path.into(), skipped: skipped.collect() });
        }
        manifest.speakers = self.speakers.into_iter().collect();
        manifest.arena.shrink_to_fit();
        manifest.records.shrink_to_fit();
        manifest.spans.shrink_to_fit();
        manifest.offsets_s.shrink_to_fit();
        Ok(Arc::new(manifest))
    }

    /// Refuses ids given twice; ids made here that collide get their line number, or in tar files the
    /// shard's name.
    fn settle_ids(&mut self) {
        let hash = |id: &str| {
            let mut hasher = DefaultHasher::new();
            id.hash(&mut hasher);
            hasher.finish()
        };
        // Sorted hashes, not a map of strings: 16 bytes an utterance, and only while they are compared.
        let count = self.manifest.records.len() as u32;
        let mut order: Vec<(u64, u32)> = (0..count)
            .into_par_iter()
            .map(|index| (hash(self.manifest.id_of(index)), index))
            .collect();
        order.par_sort_unstable();
        let id = |index: u32| self.manifest.id_of(index);
        let is_named = |index: u32| self.is_named[index as usize];
        let (mut doubled, mut colliding) = (Vec::new(), Vec::new());
        for group in order.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
            let mut group: Vec<u32> = group.iter().map(|(_, index)| *index).collect();
            group.sort_by(|a, b| {
                id(*a).cmp(id(*b)).then(is_named(*b).cmp(&is_named(*a))).then(a.cmp(b))
            });
            for same in group.chunk_by(|a, b| id(*a) == id(*b)) {
                for &index in &same[1..] {
                    let list = if is_named(index) { &mut doubled } else { &mut colliding };
                    list.push((index, same[0]));
                }
            }
        }
        doubled.sort_unstable();
        for (index, first) in doubled {
            self.note_doubled(index, first);
        }
        colliding.sort_unstable();
        let mut renamed: HashSet<String> = HashSet::new();
        for (index, first) in colliding {
            let record = self.manifest.records[index as usize];
            let source = self.manifest.source_of(index);
            let in_tar = source.extension().is_some_and(|extension| extension == "tar");
            let taken = self.manifest.id_of(index);
            let mut candidate = match source.file_stem() {
                Some(stem) if in_tar => format!("{}-{taken}", clean(&stem.to_string_lossy())),
                _ => format!("{taken}-line{}", record.line),
            };
            let is_taken = |candidate: &str| {
                let wanted = hash(candidate);
                let at = order.partition_point(|(other, _)| *other < wanted);
                renamed.contains(candidate)
                    || order[at..]
                        .iter()
                        .take_while(|(other, _)| *other == wanted)
                        .any(|(_, index)| self.manifest.id_of(*index) == candidate)
            };
            while is_taken(&candidate) {
                candidate = format!("{candidate}-line{}", record.line);
            }
            match u16::try_from(candidate.len()) {
                Ok(id_len) => {
                    // In rising order, as they are looked up.
                    self.manifest.ids_apart.push((index, self.manifest.arena.len() as u64));
                    self.manifest.arena.push_str(&candidate);
                    self.manifest.records[index as usize] =
                        Record { id_at: ID_APART, id_len, ..record };
                    renamed.insert(candidate);
                }
                // A name of 64 KiB: the user has to give a better one.
                Err(_) => self.note_doubled(index, first),
            }
        }
    }

    fn note_doubled(&mut self, index: u32, first: u32) {
        let id = self.manifest.id_of(index);
        let [source, of_first] = [index, first].map(|at| self.manifest.source_of(at));
        let [line, first_line] = [index, first].map(|at| self.manifest.records[at as usize].line);
        let other = if source == of_first {
            format!("line {first_line}")
        } else {
            format!("{}:{first_line}", of_first.display())
        };
        let reason = format!("id {id:?} is also on {other}; give each utterance its own");
        let path = source.to_owned();
        self.fault(Fault { path, line: Some(line as usize), column: None, reason });
    }
}

/// Adds the value of record number `len` to a table that is empty while all values are `absent`.
fn extend<T: Copy>(table: &mut Vec<T>, len: usize, value: Option<T>, absent: T) {
    if value.is_some() || !table.is_empty() {
        table.resize(len, absent);
        table.push(value.unwrap_or(absent));
    }
}

/// The promises that an entry of any kind has to keep.
fn check(entry: &Entry) -> Result<(), Malformed> {
    let fail = |reason: String| Err(Malformed::new(reason));
    if entry.audio.is_empty() {
        return fail("the name of its recording is empty".into());
    }
    if let Some(seconds) = entry.duration_s.filter(|d| !(d.is_finite() && *d > 0.0)) {
        return fail(format!("\"duration\" is {seconds}, expected seconds above 0"));
    }
    if let Some(seconds) = entry.offset_s.filter(|o| !(o.is_finite() && *o >= 0.0)) {
        return fail(format!("\"offset\" is {seconds}, expected seconds, 0 or more"));
    }
    if entry.id.as_ref().is_some_and(|id| id.trim().is_empty()) {
        return fail("\"id\" is empty".into());
    }
    if entry.member.as_ref().is_some_and(|(name, span)| name.is_empty() || span.is_empty()) {
        return fail("\"member\" is empty".into());
    }
    Ok(())
}

/// Seconds of which what lies below a nanosecond is rounded off: a parser of JSON may miss the last bit of
/// a number with all its digits, and a manifest read, written and read again must stay the same.
fn to_nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

/// The recording's name, in characters that every scoring tool accepts, and the offset.
fn default_id(name: &str, offset_s: Option<f64>) -> String {
    let name = Path::new(name);
    let stem = clean(&name.file_stem().unwrap_or(name.as_os_str()).to_string_lossy());
    match offset_s {
        Some(offset_s) => format!("{stem}-{:07}", (offset_s * 1e3).round() as u64),
        None => stem,
    }
}

fn clean(name: &str) -> String {
    let clean = |c: char| {
        if c.is_whitespace() || matches!(c, '(' | ')' | ',') { '_' } else { c }
    };
    name.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(audio: &'a str, id: Option<&'a str>) -> Entry<'a> {
        Entry {
            audio: audio.into(),
            text: "t".into(),
            id: id.map(Cow::Borrowed),
            ..Entry::default()
        }
    }

    #[test]
    fn ids_are_unique_for_any_mixture_of_given_and_made_ones() {
        use rand::{Rng, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for _ in 0..200 {
            let mut builder = Builder::new(Path::new("base"), "");
            builder.start_source(Path::new("m.jsonl"));
            let mut given = HashSet::new();
            let mut num_doubled = 0;
            for line in 1..=30 {
                let name = ["a", "b", "a-line2", "a-line7"][rng.random_range(0..4_u32) as usize];
                let id = rng.random_bool(0.1).then_some(name);
                num_doubled += usize::from(id.is_some_and(|id| !given.insert(id.to_owned())));
                builder.push(line, &entry(&format!("{line}/{name}.wav"), id));
            }
            match builder.finish(Path::new("m.jsonl")) {
                Ok(manifest) => {
                    let ids: HashSet<String> =
                        manifest.utterances().map(|u| u.id().to_owned()).collect();
                    assert_eq!((ids.len(), num_doubled), (30, 0));
                    assert!(given.is_subset(&ids), "given ids stay");
                }
                Err(ManifestError::Faults { faults, .. }) => {
                    assert_eq!(faults.total(), num_doubled)
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn names_beyond_any_file_system_are_refused() {
        let long = "x".repeat(70_000);
        for (audio, id) in [(long.as_str(), None), ("a.wav", Some(long.as_str()))] {
            let mut builder = Builder::new(Path::new(""), "");
            builder.start_source(Path::new("m"));
            builder.push(1, &entry(audio, id));
            let error = builder.finish(Path::new("m")).err().unwrap().to_string();
            assert!(error.contains("70000 bytes"), "{error}");
        }
    }

    #[test]
    fn members_and_files_live_in_one_manifest() {
        let mut builder = Builder::new(Path::new("base"), "");
        builder.start_source(Path::new("m"));
        builder.push(1, &entry("x/a.wav", None));
        let span = Span { start: 512, len: 9 };
        builder.push(2, &Entry { member: Some(("b.wav".into(), span)), ..entry("s.tar", None) });
        builder.push(3, &entry("c.wav", None));
        let manifest = builder.finish(Path::new("m")).unwrap();
        let audio: Vec<_> = manifest.utterances().map(|u| u.audio()).collect();
        use super::super::AudioSource::{File, Member};
        let member = Member { tar: "base/s.tar".into(), name: "b.wav".into(), span };
        assert_eq!(audio, [File("base/x/a.wav".into()), member, File("base/c.wav".into())]);
    }
}
