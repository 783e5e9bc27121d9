//! Apple's Core Audio Format with PCM, float or G.711 (specification 1.0); its compressed kinds go the way
//! of the other compressed containers.

use super::AudioError;
use super::layout::{Encoding, Layout};
use super::pcm::{Kind, SampleFormat};
use super::source::Source;

const FORMAT: &str = "CAF";

/// Real files have a dozen.
const MAX_CHUNKS: usize = 10_000;

/// The layout, or `None` when the samples are compressed.
pub(super) fn layout(source: &mut Source) -> Result<Option<Layout>, AudioError> {
    let mut at = 8_u64;
    let mut description = None;
    for _ in 0..MAX_CHUNKS {
        let head = source.bytes_at(at, 12)?;
        if head.len() < 12 {
            return Err(source.malformed(FORMAT, "it ends before its audio data"));
        }
        let len = i64::from_be_bytes(head[4..12].try_into().expect("eight bytes"));
        at += 12;
        match &head[..4] {
            b"desc" => {
                let bytes = source.bytes_at(at, 32)?;
                if bytes.len() < 32 {
                    return Err(source.malformed(FORMAT, "its description is cut short"));
                }
                match describe(source, &bytes)? {
                    Some(layout) => description = Some(layout),
                    None => return Ok(None),
                }
            }
            b"data" => {
                let Some(mut layout) = description else {
                    return Err(source.malformed(FORMAT, "no description before the data"));
                };
                // A count of edits stands before the samples; a length of -1 is "to the end".
                layout.data_start = at + 4;
                layout.data_len = u64::try_from(len).ok().map(|len| len.saturating_sub(4));
                return Ok(Some(layout));
            }
            _ => {}
        }
        let Ok(len) = u64::try_from(len) else {
            let reason = format!("a chunk claims to have {len} bytes");
            return Err(source.malformed(FORMAT, reason));
        };
        at = at.saturating_add(len);
    }
    Err(source.malformed(FORMAT, format!("it has more than {MAX_CHUNKS} chunks")))
}

fn describe(source: &Source, bytes: &[u8]) -> Result<Option<Layout>, AudioError> {
    let word =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let rate = f64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
    let (flags, packet_len, channels, bits) = (word(12), word(16), word(24), word(28));
    let little_endian = flags & 2 != 0;
    let kind = match &bytes[8..12] {
        b"lpcm" if flags & 1 != 0 => Kind::Float,
        b"lpcm" => Kind::Signed,
        b"ulaw" => Kind::MuLaw,
        b"alaw" => Kind::ALaw,
        _ => return Ok(None),
    };
    if channels == 0 || packet_len % channels != 0 {
        let reason = format!("{channels} channels in {packet_len} bytes a frame");
        return Err(source.malformed(FORMAT, reason));
    }
    let num_bytes = (packet_len / channels) as usize;
    let format = SampleFormat::new(kind, num_bytes, !little_endian)
        .filter(|_| bits as usize <= 8 * num_bytes)
        .ok_or_else(|| source.unsupported(format!("CAF with {bits}-bit audio")))?;
    Ok(Some(Layout {
        format: FORMAT,
        encoding: Encoding::Plain(format),
        channels: channels as usize,
        // Out of range and NaN become 0 or the largest, which are refused.
        rate_hz: rate.round() as u32,
        data_start: 0,
        data_len: None,
        num_frames: None,
    }))
}
