//! Segments of compressed recordings without what lies before them, where that gives the same samples as
//! a cut of the whole. Anything unexpected on the way (times that do not follow each other, a packet that
//! does not decode) drops the attempt, and the caller decodes from the start.

use symphonia::core::formats::{SeekMode, SeekTo};
use symphonia::core::units::Timestamp;

use super::channel::ChannelPicker;
use super::decoder::Decoder;
use super::ogg::OggEnd;
use super::sniff::Container;
use super::stream::{self, Stream};
use super::{Decoded, Segment};

/// Segments that start before this, counted from where decoding must begin, are reached by decoding: seeking costs about as much.
const MIN_SEEK_S: f64 = 4.0;

/// Opus predicts from what it decoded before. Its fixed-point speech coder forgets to the last bit within
/// 3 s of speech at 6 to 24 kbit/s (measured; the 0.08 s of RFC 7845 leave errors of 0.1).
#[cfg(feature = "opus")]
const OPUS_PREROLL_S: f64 = 5.0;

/// MP3's bit reservoir reaches back 511 bytes: 21 frames of 72 ms at 8 kbit/s.
const MP3_PREROLL_S: f64 = 2.0;

/// AAC overlaps with one block.
const MP4_PREROLL_S: f64 = 0.5;

/// Where to jump to, and what to take from there.
pub(super) struct Seek {
    /// In ticks of the track.
    target: i64,
    /// Ticks a frame.
    ticks: i64,
    /// Frames between the track's time 0 and position 0.
    origin: i64,
    rate_hz: u32,
    wanted: (u64, u64),
}

impl Stream<'_> {
    /// How long a decoder must run before its output is what it would have been from the start; `None`
    /// where times are too coarse to seek by.
    fn preroll_s(&self) -> Option<f64> {
        match (self.container, &self.decoder) {
            #[cfg(feature = "opus")]
            (Container::Ogg, Decoder::Opus(_)) => Some(OPUS_PREROLL_S),
            // The demultiplexer itself goes two blocks of Vorbis back.
            (Container::Flac | Container::Ogg, _) => Some(0.0),
            (Container::Mpeg, _) => Some(MP3_PREROLL_S),
            (Container::Mp4, _) => Some(MP4_PREROLL_S),
            _ => None,
        }
    }

    /// A seek, if the segment lies far enough behind the start and the track can be seeked exactly.
    pub(super) fn plan_seek(&self, segment: Segment, end: Option<&OggEnd>) -> Option<Seek> {
        let preroll_s = self.preroll_s()?;
        // Symphonia's Ogg seek runs in circles between several streams.
        if segment.offset_s < MIN_SEEK_S + preroll_s || self.reader.tracks().len() != 1 {
            return None;
        }
        let rate_hz = match &self.decoder {
            Decoder::Symphonia(_) => self.track.codec_params.as_ref()?.audio()?.sample_rate?,
            #[cfg(feature = "opus")]
            Decoder::Opus(opus) => opus.rate_hz,
        };
        let time_base = self.track.time_base?;
        let units_a_s = time_base.denom.get();
        if time_base.numer.get() != 1 || rate_hz == 0 || units_a_s % rate_hz != 0 {
            return None;
        }
        let ticks = i64::from(units_a_s / rate_hz);
        let origin = match self.container {
            // The first sample that is heard has time 0.
            Container::Mpeg => 0,
            Container::Ogg => stream::first_heard(&self.track) / ticks,
            _ => i64::try_from(self.timing.skip).ok()?,
        };
        let wanted = segment.frames(rate_hz);
        let preroll = (preroll_s * f64::from(rate_hz)) as i64;
        let first = i64::try_from(wanted.0).ok()?;
        let mut target = first.checked_add(origin)?.checked_sub(preroll)?.checked_mul(ticks)?;
        if self.container == Container::Ogg {
            // Times on the last page are told from the page before, so a jump must not end there.
            let last_page = i64::try_from(end?.last_page_granule?).ok()?;
            target = target.min(last_page.checked_sub(i64::from(units_a_s / 4))?);
        }
        (target > 0).then_some(Seek { target, ticks, origin, rate_hz, wanted })
    }

    /// Decodes from the target of a seek to the end of the segment.
    pub(super) fn decode_behind(&mut self, seek: &Seek, picker: &ChannelPicker) -> Option<Decoded> {
        let to = SeekTo::Timestamp { ts: Timestamp::new(seek.target), track_id: self.track.id };
        self.reader.seek(SeekMode::Accurate, to).ok()?;
        self.decoder.reset();
        let mut samples = Vec::new();
        let mut expected = None;
        while let Some(packet) = self.next_packet().ok()? {
            let num_frames = self.decode(&packet, picker).ok()? as i64;
            if num_frames == 0 {
                continue;
            }
            let time = packet.pts.get();
            let position = time / seek.ticks - seek.origin;
            let follows = match expected {
                Some(expected) => expected == position,
                None => u64::try_from(position).is_ok_and(|position| position <= seek.wanted.0),
            };
            if !follows || time % seek.ticks != 0 || self.layout?.0 != seek.rate_hz {
                return None;
            }
            self.keep(position, seek.wanted, picker, &mut samples);
            let next = position + num_frames;
            expected = Some(next);
            if u64::try_from(next).is_ok_and(|next| next >= seek.wanted.1) {
                break;
            }
        }
        let limit = self.timing.limit.unwrap_or(u64::MAX);
        let reached = u64::try_from(expected?).ok()?.min(limit);
        let num_frames = reached.max(self.timing.promised.unwrap_or(0));
        // What ends before it should is left to the careful way.
        (reached >= seek.wanted.1.min(num_frames)).then_some(Decoded {
            samples,
            rate_hz: seek.rate_hz,
            num_frames,
        })
    }
}
