//! One compressed track and its place in time: which of the decoded frames are heard, how many were
//! promised, and decoding from the start. Positions count heard frames; what an encoder put in front has
//! negative ones.

use std::io;

use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::{FormatReader, Track, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::packet::Packet;

use super::channel::ChannelPicker;
use super::compressed::Failure;
use super::decoder::Decoder;
use super::sniff::Container;
use super::{AudioError, Decoded, Segment, check_rate, mp4};

/// A track that is being decoded.
pub(super) struct Stream<'a> {
    pub reader: Box<dyn FormatReader + 'a>,
    pub container: Container,
    pub decoder: Decoder,
    pub track: Track,
    pub timing: Timing,
    failure: Failure<'a>,
    /// Rate and channels, once a packet has told them.
    pub layout: Option<(u32, usize)>,
    interleaved: Vec<f32>,
}

/// What a container says of its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timing {
    /// Decoded frames before the first that is heard.
    pub skip: u64,
    /// Frames that are heard, where decoders may give more.
    pub limit: Option<u64>,
    /// Frames that must be there.
    pub promised: Option<u64>,
}

/// The time of the first sample of an Ogg track that is heard: one block of Vorbis and the pre-skip of
/// Opus are not.
pub(super) fn first_heard(track: &Track) -> i64 {
    track.start_ts.get().saturating_add(i64::from(track.delay.unwrap_or(0)))
}

impl Timing {
    fn new(
        container: Container,
        track: &Track,
        params: &AudioCodecParameters,
        decoder: &Decoder,
        edit: Option<mp4::Edit>,
    ) -> Timing {
        let num_frames = match container {
            // The last granule, as a time.
            Container::Ogg => track.num_frames.map(|end| {
                let heard = i128::from(end) - i128::from(first_heard(track));
                u64::try_from(heard).unwrap_or(0)
            }),
            _ => track.num_frames,
        };
        match (container, decoder) {
            #[cfg(feature = "opus")]
            (_, Decoder::Opus(opus)) => {
                let scale = u64::from(super::opus::GRANULE_RATE_HZ / opus.rate_hz);
                // Matroska tells no length, and nothing of the padding.
                let frames = num_frames
                    .filter(|_| container == Container::Ogg)
                    .map(|frames| frames.div_ceil(scale));
                let skip = opus.pre_skip.div_ceil(scale);
                Timing { skip, limit: frames, promised: frames }
            }
            // Only LAME's tag counts frames; without it the length is a guess, which must cut nothing.
            (Container::Mpeg, _) => match track.delay {
                Some(delay) => {
                    Timing { skip: u64::from(delay), limit: num_frames, promised: num_frames }
                }
                None => Timing::default(),
            },
            (Container::Mp4, _) => {
                let edit = edit.zip(params.sample_rate);
                let skip = edit.map_or(0, |(edit, rate_hz)| edit.skip_at(rate_hz));
                let edited = edit.and_then(|(edit, rate_hz)| edit.frames_at(rate_hz));
                // Some writers count the skipped frames into the length of the edit.
                let timed = num_frames.map(|frames| frames.saturating_sub(skip));
                let limit = edited.into_iter().chain(timed).min();
                Timing { skip, limit, promised: timed.and(limit) }
            }
            (Container::Adts | Container::Matroska, _) => Timing::default(),
            _ => Timing { skip: 0, limit: num_frames, promised: num_frames },
        }
    }
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        reader: Result<Box<dyn FormatReader + 'a>, Error>,
        container: Container,
        failure: Failure<'a>,
        edit: Option<mp4::Edit>,
        segment: Segment,
    ) -> Result<Stream<'a>, AudioError> {
        let reader = reader.map_err(|error| failure.explain(error))?;
        let track = reader
            .default_track(TrackType::Audio)
            .ok_or_else(|| failure.malformed("no audio stream"))?
            .clone();
        let params = track
            .codec_params
            .as_ref()
            .and_then(|params| params.audio())
            .ok_or_else(|| failure.malformed("its audio stream has no parameters"))?;
        // MP3's decoder would trim by a guess of the length: that is done here.
        let options = AudioDecoderOptions::default()
            .verify(segment.is_whole())
            .gapless(container != Container::Mpeg);
        let decoder = Decoder::new(params, options, failure)?;
        let timing = Timing::new(container, &track, params, &decoder, edit);
        Ok(Stream {
            reader,
            container,
            decoder,
            track,
            timing,
            failure,
            layout: None,
            interleaved: Vec::new(),
        })
    }

    /// Ends a stream that was decoded without complaint.
    pub(super) fn retire(self) {
        let params = self.track.codec_params.as_ref().and_then(|params| params.audio());
        self.decoder.retire(params);
    }

    pub(super) fn into_bytes(self) -> MediaSourceStream<'a> {
        self.reader.into_inner()
    }

    /// The next packet of the track.
    pub(super) fn next_packet(&mut self) -> Result<Option<Packet>, AudioError> {
        // These have no end of their own; the others are held against what they promise.
        let open_ended = self.container != Container::Matroska;
        loop {
            match self.reader.next_packet() {
                Ok(Some(packet)) if packet.track_id != self.track.id => {}
                Ok(packet) => return Ok(packet),
                Err(Error::IoError(source))
                    if open_ended && source.kind() == io::ErrorKind::UnexpectedEof =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(self.failure.explain(error)),
            }
        }
    }

    /// Decodes a packet; the number of its frames.
    pub(super) fn decode(
        &mut self,
        packet: &Packet,
        picker: &ChannelPicker,
    ) -> Result<usize, AudioError> {
        let failure = self.failure;
        let layout = self.decoder.decode(packet, &mut self.interleaved, failure)?;
        let (rate_hz, channels) = layout;
        if self.layout != Some(layout) {
            if self.layout.is_some() {
                return Err(failure.malformed("its rate or channel count changes on the way"));
            }
            check_rate(failure.path, failure.format, rate_hz)?;
            if channels == 0 {
                return Err(failure.malformed("it has no channels"));
            }
            picker.check(channels)?;
            self.layout = Some(layout);
        }
        Ok(self.interleaved.len() / channels)
    }

    /// Appends what the packet just decoded, which starts at `position`, has of the wanted frames.
    pub(super) fn keep(
        &self,
        position: i64,
        (first, end): (u64, u64),
        picker: &ChannelPicker,
        samples: &mut Vec<f32>,
    ) {
        let Some((_, channels)) = self.layout else {
            return;
        };
        let num_frames = (self.interleaved.len() / channels) as i128;
        let within =
            |frame: u64| (i128::from(frame) - i128::from(position)).clamp(0, num_frames) as usize;
        let from = within(first);
        let to = within(end.min(self.timing.limit.unwrap_or(u64::MAX)));
        if from < to {
            picker.append(&self.interleaved[from * channels..to * channels], channels, samples);
        }
    }

    /// Decodes up to the end of the segment.
    pub(super) fn decode_from_start(
        &mut self,
        segment: Segment,
        picker: &ChannelPicker,
    ) -> Result<Decoded, AudioError> {
        let mut samples = Vec::new();
        let mut position = -(self.timing.skip as i64);
        let mut complete = true;
        while let Some(packet) = self.next_packet()? {
            let num_frames = self.decode(&packet, picker)?;
            let rate_hz = self.layout.map_or(0, |(rate_hz, _)| rate_hz);
            let wanted = segment.frames(rate_hz);
            self.keep(position, wanted, picker, &mut samples);
            position += num_frames as i64;
            if u64::try_from(position).is_ok_and(|position| position >= wanted.1) {
                complete = false;
                break;
            }
        }
        let decoded = u64::try_from(position).unwrap_or(0);
        let num_frames = decoded.min(self.timing.limit.unwrap_or(u64::MAX));
        if complete {
            self.check_complete(num_frames)?;
        }
        let rate_hz = match self.layout {
            Some((rate_hz, _)) => rate_hz,
            None => self.silent_rate()?,
        };
        Ok(Decoded { samples, rate_hz, num_frames })
    }

    /// Whether all is there that the file promises.
    fn check_complete(&mut self, num_frames: u64) -> Result<(), AudioError> {
        if let Some(promised) = self.timing.promised.filter(|promised| *promised > num_frames) {
            return Err(AudioError::Truncated {
                path: self.failure.path.into(),
                promised: format!("{promised} samples"),
                found: format!("only {num_frames} that can be decoded"),
            });
        }
        if self.decoder.contradicts_checksum() {
            let reason = "the decoded samples do not match the checksum of its encoder";
            return Err(self.failure.malformed(reason));
        }
        Ok(())
    }

    /// The rate of a track without a packet, from its header.
    fn silent_rate(&self) -> Result<u32, AudioError> {
        let params = self.track.codec_params.as_ref().and_then(|params| params.audio());
        let rate_hz = params.and_then(|params| params.sample_rate).unwrap_or(0);
        check_rate(self.failure.path, self.failure.format, rate_hz)?;
        Ok(rate_hz)
    }
}
