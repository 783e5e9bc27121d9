//! The edit list of an MP4 file (ISO 14496-12, 8.6.6): which part of the decoded audio is heard. AAC
//! encoders put about a thousand samples in front, and the list is where they say so.

use super::AudioError;
use super::source::Source;

/// Boxes looked at in all; real files have a few dozen at these levels.
const MAX_BOXES: usize = 10_000;

/// What is heard of the first audio track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// Start, in units of the track.
    media_time: u64,
    media_timescale: u64,
    /// Length in units of the film; 0 when the list does not say.
    duration: u64,
    movie_timescale: u64,
}

impl Edit {
    /// Samples before the first that is heard.
    pub(super) fn skip_at(&self, rate_hz: u32) -> u64 {
        self.media_time.saturating_mul(u64::from(rate_hz)) / self.media_timescale
    }

    /// Samples that are heard; the film's units are often milliseconds, and the last counts in full.
    pub(super) fn frames_at(&self, rate_hz: u32) -> Option<u64> {
        let frames = self.duration.saturating_mul(u64::from(rate_hz));
        (self.duration > 0).then(|| frames.div_ceil(self.movie_timescale))
    }
}

/// A part of the file.
type Span = (u64, u64);

/// The single edit of the first audio track, if it has just one. What is broken here is left for the
/// decoder to complain about.
pub(super) fn first_edit(source: &mut Source) -> Result<Option<Edit>, AudioError> {
    let mut walk = Walk { num_seen: 0 };
    let whole = (0, source.len());
    let Some(film) = walk.find(source, whole, b"moov")? else {
        return Ok(None);
    };
    let Some(movie_timescale) = walk.timescale(source, film, b"mvhd")? else {
        return Ok(None);
    };
    let mut rest = film;
    while let Some((track, after)) = walk.next(source, rest, b"trak")? {
        rest = after;
        let Some(media) = walk.find(source, track, b"mdia")? else {
            continue;
        };
        let Some(handler) = walk.find(source, media, b"hdlr")? else {
            continue;
        };
        if source.bytes_at(handler.0 + 8, 4)? != b"soun" {
            continue;
        }
        let Some(media_timescale) = walk.timescale(source, media, b"mdhd")? else {
            return Ok(None);
        };
        let Some(edits) = walk.find(source, track, b"edts")? else {
            return Ok(None);
        };
        let Some(list) = walk.find(source, edits, b"elst")? else {
            return Ok(None);
        };
        let edit = single_edit(&source.bytes_at(list.0, 8 + 20 * 4)?);
        return Ok(edit.map(|(duration, media_time)| Edit {
            media_time,
            media_timescale,
            duration,
            movie_timescale,
        }));
    }
    Ok(None)
}

/// Duration and start of the only edit that is not a pause.
fn single_edit(list: &[u8]) -> Option<(u64, u64)> {
    let long = *list.first()? == 1;
    let (entry_len, width) = if long { (20, 8) } else { (12, 4) };
    let num_entries = number(list.get(4..8)?) as usize;
    let mut found = None;
    for i in 0..num_entries.min(4) {
        let entry = list.get(8 + i * entry_len..8 + (i + 1) * entry_len)?;
        let (duration, media_time) = (number(&entry[..width]), number(&entry[width..2 * width]));
        let pause = media_time == if long { u64::MAX } else { u64::from(u32::MAX) };
        if !pause && found.replace((duration, media_time)).is_some() {
            return None;
        }
    }
    found.filter(|_| num_entries <= 4)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

struct Walk {
    num_seen: usize,
}

impl Walk {
    fn find(
        &mut self,
        source: &mut Source,
        within: Span,
        name: &[u8; 4],
    ) -> Result<Option<Span>, AudioError> {
        Ok(self.next(source, within, name)?.map(|(found, _)| found))
    }

    /// The content of the first box of this name, and what lies behind it.
    fn next(
        &mut self,
        source: &mut Source,
        within: Span,
        name: &[u8; 4],
    ) -> Result<Option<(Span, Span)>, AudioError> {
        let (mut at, end) = within;
        while at.saturating_add(8) <= end && self.num_seen < MAX_BOXES {
            self.num_seen += 1;
            let head = source.bytes_at(at, 16)?;
            if head.len() < 8 {
                return Ok(None);
            }
            let (head_len, len) = match number(&head[..4]) {
                0 => (8, end - at),
                1 if head.len() == 16 => (16, number(&head[8..])),
                len => (8, len),
            };
            if len < head_len {
                return Ok(None);
            }
            let after = at.saturating_add(len).min(end);
            if &head[4..8] == name {
                return Ok(Some(((at + head_len, after), (after, end))));
            }
            at = after;
        }
        Ok(None)
    }

    /// Units a second, from a header that has them behind two dates.
    fn timescale(
        &mut self,
        source: &mut Source,
        within: Span,
        name: &[u8; 4],
    ) -> Result<Option<u64>, AudioError> {
        let Some((start, _)) = self.find(source, within, name)? else {
            return Ok(None);
        };
        let head = source.bytes_at(start, 24)?;
        let at = if head.first() == Some(&1) { 20 } else { 12 };
        let scale = head.get(at..at + 4).map(number);
        Ok(scale.filter(|scale| *scale > 0))
    }
}
