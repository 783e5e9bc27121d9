//! Opus packets (RFC 6716) through a decoder in Rust that equals libopus to the last bit at our rates.
//! Opus has no sample rate of its own. Ours is the one the encoder was fed with, where a decoder can give
//! it (8, 12, 16, 24 or 48 kHz), and 48 kHz otherwise, as libsndfile does.

use opus_pure::{ChannelLayout, MAX_PACKET_SAMPLES, OpusDecoder, OpusMSDecoder};

/// Rates that Opus decodes to.
const RATES_HZ: [u32; 5] = [8_000, 12_000, 16_000, 24_000, 48_000];

/// Granules and pre-skip count at this rate.
pub(super) const GRANULE_RATE_HZ: u32 = 48_000;

enum Decoder {
    Plain(Box<OpusDecoder>),
    Surround(Box<OpusMSDecoder>),
}

/// The decoder of one Opus stream.
pub(super) struct OpusStream {
    decoder: Decoder,
    pub rate_hz: u32,
    pub channels: usize,
    /// Samples at 48 kHz before the first one that is heard.
    pub pre_skip: u64,
    frames: Vec<f32>,
}

impl OpusStream {
    /// From the identification header (RFC 7845, section 5.1).
    pub(super) fn new(head: &[u8]) -> Result<OpusStream, String> {
        if head.len() < 19 || !head.starts_with(b"OpusHead") || head[8] >> 4 != 0 {
            return Err("its Opus header is broken".into());
        }
        let channels = usize::from(head[9]);
        let pre_skip = u64::from(u16::from_le_bytes([head[10], head[11]]));
        let input_hz = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        let gain_q8 = i32::from(i16::from_le_bytes([head[16], head[17]]));
        let family = head[18];
        let rate_hz = if RATES_HZ.contains(&input_hz) { input_hz } else { GRANULE_RATE_HZ };
        let refuse = |error: opus_pure::Error| error.to_string();
        let decoder = if family == 0 {
            let mut decoder = OpusDecoder::new(rate_hz as i32, channels).map_err(refuse)?;
            decoder.gain_q8 = gain_q8;
            Decoder::Plain(Box::new(decoder))
        } else {
            // The decoder knows one arrangement of streams for each number of channels.
            let layout = ChannelLayout::surround(channels, family).map_err(refuse)?;
            let mut decoder =
                OpusMSDecoder::new(rate_hz as i32, channels, family).map_err(refuse)?;
            if head.get(19).map(|&streams| usize::from(streams)) != Some(decoder.nb_streams())
                || head.get(21..) != Some(&layout.mapping[..])
            {
                return Err("its Opus channels are mapped in an unusual way".into());
            }
            for stream in decoder.streams_mut() {
                stream.gain_q8 = gain_q8;
            }
            Decoder::Surround(Box::new(decoder))
        };
        let longest = MAX_PACKET_SAMPLES * channels;
        Ok(OpusStream { decoder, rate_hz, channels, pre_skip, frames: vec![0.0; longest] })
    }

    /// The interleaved frames of one packet.
    pub(super) fn decode(&mut self, packet: &[u8]) -> Result<&[f32], String> {
        if packet.is_empty() {
            return Err("an Opus packet is empty".into());
        }
        let longest = self.frames.len() / self.channels;
        let decoded = match &mut self.decoder {
            Decoder::Plain(decoder) => decoder.decode(packet, longest, &mut self.frames),
            Decoder::Surround(decoder) => decoder.decode(packet, longest, &mut self.frames),
        };
        let num_frames = decoded.map_err(|error| error.to_string())?;
        Ok(&self.frames[..num_frames * self.channels])
    }

    pub(super) fn reset(&mut self) {
        let done = match &mut self.decoder {
            Decoder::Plain(decoder) => decoder.reset_state(),
            Decoder::Surround(decoder) => decoder.reset_state(),
        };
        debug_assert!(done.is_ok());
    }
}
