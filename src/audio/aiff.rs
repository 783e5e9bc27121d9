//! AIFF and AIFF-C (Apple, 1989 and 1991) with PCM, float or G.711. The two chunks that matter come in any
//! order; the sample rate is a float of 80 bits.

use super::AudioError;
use super::chunks::{Chunks, Flavour};
use super::layout::{Encoding, Layout, STREAMED_SIZE};
use super::pcm::{Kind, SampleFormat};
use super::source::Source;

const FORMAT: &str = "AIFF";

pub(super) fn layout(source: &mut Source) -> Result<Layout, AudioError> {
    let mut chunks = Chunks::new(Flavour::Big, FORMAT, 12);
    let (mut common, mut sound) = (None, None);
    while common.is_none() || sound.is_none() {
        let Some(chunk) = chunks.next(source)? else {
            let missing = if common.is_none() { "COMM" } else { "SSND" };
            return Err(source.malformed(FORMAT, format!("it has no {missing} chunk")));
        };
        match &chunk.id {
            b"COMM" => common = Some(source.bytes_at(chunk.start, chunk.len.min(22) as usize)?),
            b"SSND" => sound = Some(chunk),
            _ => {}
        }
    }
    let common = common.expect("the loop ends with both");
    let sound = sound.expect("the loop ends with both");
    if common.len() < 18 {
        return Err(source.malformed(FORMAT, "its COMM chunk is cut short"));
    }
    let channels = u16::from_be_bytes([common[0], common[1]]);
    let num_frames = u32::from_be_bytes([common[2], common[3], common[4], common[5]]);
    let bits = usize::from(u16::from_be_bytes([common[6], common[7]]));
    let rate_hz = rate(&common[8..18]);
    let num_bytes = bits.div_ceil(8);
    let (kind, num_bytes, big_endian) = match common.get(18..22) {
        None | Some(b"NONE" | b"twos") => (Kind::Signed, num_bytes, true),
        Some(b"sowt") => (Kind::Signed, num_bytes, false),
        Some(b"in24") => (Kind::Signed, 3, true),
        Some(b"in32") => (Kind::Signed, 4, true),
        Some(b"raw ") => (Kind::Unsigned, 1, true),
        Some(b"fl32" | b"FL32") => (Kind::Float, 4, true),
        Some(b"fl64" | b"FL64") => (Kind::Float, 8, true),
        Some(b"ulaw" | b"ULAW") => (Kind::MuLaw, 1, true),
        Some(b"alaw" | b"ALAW") => (Kind::ALaw, 1, true),
        Some(other) => {
            let name = String::from_utf8_lossy(other);
            return Err(source.unsupported(format!("AIFF-C with {name:?} audio")));
        }
    };
    let format = SampleFormat::new(kind, num_bytes, big_endian)
        .ok_or_else(|| source.unsupported(format!("AIFF with {bits}-bit audio")))?;
    // The samples start after a head of eight bytes and a gap for alignment.
    let head = source.bytes_at(sound.start, 8)?;
    if head.len() < 8 {
        return Err(source.malformed(FORMAT, "its SSND chunk is cut short"));
    }
    let gap = 8 + u64::from(u32::from_be_bytes([head[0], head[1], head[2], head[3]]));
    let frame_len = (format.num_bytes * usize::from(channels)) as u64;
    let promised = u64::from(num_frames) * frame_len;
    let in_chunk = sound.len.saturating_sub(gap);
    // A pipe that cannot seek back leaves sizes of zero or near 2^31.
    let streamed = num_frames == 0 && in_chunk == 0 || in_chunk >= STREAMED_SIZE;
    if !streamed && promised > in_chunk {
        return Err(AudioError::Truncated {
            path: source.path().into(),
            promised: format!("{promised} bytes of audio"),
            found: format!("{in_chunk} in their chunk"),
        });
    }
    Ok(Layout {
        format: FORMAT,
        encoding: Encoding::Plain(format),
        channels: usize::from(channels),
        rate_hz,
        data_start: sound.start.saturating_add(gap),
        data_len: (!streamed).then_some(if num_frames == 0 { in_chunk } else { promised }),
        num_frames: None,
    })
}

/// The 80-bit float of a rate, 0 when it is not a positive number that fits.
fn rate(bytes: &[u8]) -> u32 {
    let exponent = i32::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    let mantissa = bytes[2..10].iter().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
    // The mantissa has its point after the first bit; a set sign makes the exponent too large.
    let value = mantissa as f64 * 2_f64.powi(exponent - 16_383 - 63);
    if value < f64::from(u32::MAX) { value.round() as u32 } else { u32::MAX }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A whole number as an 80-bit float.
    pub(crate) fn extended(value: u32) -> [u8; 10] {
        let shift = value.leading_zeros();
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&(16_383 + 31 - shift as u16).to_be_bytes());
        bytes[2..6].copy_from_slice(&(value << shift).to_be_bytes());
        bytes
    }

    #[test]
    fn rates_round_trip_and_nonsense_is_no_rate() {
        for value in [1, 8_000, 11_025, 16_000, 44_100, 96_000, 0xffff_fffe] {
            assert_eq!(rate(&extended(value)), value);
        }
        assert_eq!(rate(&[0; 10]), 0);
        assert_eq!(rate(&[0xff; 10]), u32::MAX);
    }
}
