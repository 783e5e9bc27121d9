//! Sun and NeXT audio, `.au` and `.snd`: a header of six big-endian words, then samples.

use super::AudioError;
use super::layout::{Encoding, Layout};
use super::pcm::{Kind, SampleFormat};
use super::source::Source;

const FORMAT: &str = "Sun AU";

/// A size of this is "unknown".
const UNKNOWN: u32 = u32::MAX;

pub(super) fn layout(source: &mut Source) -> Result<Layout, AudioError> {
    let head = source.bytes_at(0, 24)?;
    if head.len() < 24 {
        return Err(source.malformed(FORMAT, "it ends within its header"));
    }
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (data_start, data_len, code, rate_hz, channels) =
        (word(4), word(8), word(12), word(16), word(20));
    if data_start < 24 {
        let reason = format!("its header claims to have {data_start} bytes, fewer than 24");
        return Err(source.malformed(FORMAT, reason));
    }
    let (kind, num_bytes) = match code {
        1 => (Kind::MuLaw, 1),
        2..=5 => (Kind::Signed, code as usize - 1),
        6 => (Kind::Float, 4),
        7 => (Kind::Float, 8),
        27 => (Kind::ALaw, 1),
        _ => return Err(source.unsupported(format!("{FORMAT} with encoding {code}"))),
    };
    let format = SampleFormat::new(kind, num_bytes, true).expect("each of these exists");
    Ok(Layout {
        format: FORMAT,
        encoding: Encoding::Plain(format),
        channels: channels as usize,
        rate_hz,
        data_start: u64::from(data_start),
        data_len: (data_len != UNKNOWN).then_some(u64::from(data_len)),
        num_frames: None,
    })
}
