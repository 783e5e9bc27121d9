//! WAV in all its headers: RIFF, big-endian RIFX, 64-bit RF64 and BW64, Sony Wave64. The chunks are
//! walked here, since sizes lie: recorders die, pipes cannot seek back (size 0 or 0xFFFFFFFF), copies are
//! cut short. Encodings without a decoder here are named (RFC 2361 lists the tags).

use super::AudioError;
use super::adpcm::{ImaAdpcm, MsAdpcm};
use super::chunks::{Chunk, Chunks, Flavour};
use super::layout::{Encoding, Layout, STREAMED_SIZE};
use super::pcm::{Kind, SampleFormat};
use super::source::Source;

/// No real format chunk is longer.
const MAX_FMT_LEN: u64 = 4_096;

/// The kinds of WAV header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Riff,
    Rifx,
    Rf64,
    Wave64,
}

impl Header {
    fn name(self) -> &'static str {
        match self {
            Header::Riff => "WAV",
            Header::Rifx => "WAV (RIFX)",
            Header::Rf64 => "WAV (RF64)",
            Header::Wave64 => "Wave64",
        }
    }

    fn chunks(self) -> Chunks {
        match self {
            Header::Riff | Header::Rf64 => Chunks::new(Flavour::Little, self.name(), 12),
            Header::Rifx => Chunks::new(Flavour::Big, self.name(), 12),
            Header::Wave64 => Chunks::new(Flavour::Wave64, self.name(), 40),
        }
    }
}

pub(super) fn layout(source: &mut Source, header: Header) -> Result<Layout, AudioError> {
    let name = header.name();
    let mut chunks = header.chunks();
    let mut fmt = None;
    let (mut fact_frames, mut long_data_len) = (None, None);
    loop {
        let Some(chunk) = chunks.next(source)? else {
            let reason = "it ends within its header: no audio data follows";
            return Err(source.malformed(name, reason));
        };
        match &chunk.id {
            b"fmt " => {
                if !(16..=MAX_FMT_LEN).contains(&chunk.len) {
                    let reason = format!("its format chunk has {} bytes", chunk.len);
                    return Err(source.malformed(name, reason));
                }
                let bytes = source.bytes_at(chunk.start, chunk.len as usize)?;
                if (bytes.len() as u64) < chunk.len {
                    let reason = "it ends within its header: no audio data follows";
                    return Err(source.malformed(name, reason));
                }
                fmt = Some(Fmt { bytes, big_endian: header == Header::Rifx });
            }
            b"fact" if header == Header::Wave64 => fact_frames = number(source, chunk.start, 8)?,
            b"fact" if header != Header::Rifx => fact_frames = number(source, chunk.start, 4)?,
            b"ds64" if header == Header::Rf64 => {
                long_data_len = number(source, chunk.start + 8, 8)?;
            }
            b"data" => {
                let fmt =
                    fmt.ok_or_else(|| source.malformed(name, "no format chunk before the data"))?;
                let data_len = data_len(source, header, chunk, long_data_len)?;
                let mut layout = fmt.layout(source, name, chunk.start)?;
                layout.data_len = data_len;
                if !matches!(layout.encoding, Encoding::Plain(_)) && data_len.is_some() {
                    layout.num_frames = fact_frames.filter(|frames| *frames > 0);
                }
                return Ok(layout);
            }
            _ => {}
        }
    }
}

/// A little-endian number, `None` past the end.
fn number(source: &mut Source, at: u64, len: usize) -> Result<Option<u64>, AudioError> {
    let bytes = source.bytes_at(at, len)?;
    let value = bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    Ok((bytes.len() == len).then_some(value))
}

/// Bytes of audio that the header promises; `None` when it was written by a pipe.
fn data_len(
    source: &mut Source,
    header: Header,
    data: Chunk,
    long_data_len: Option<u64>,
) -> Result<Option<u64>, AudioError> {
    let claimed = match long_data_len {
        // RF64 moves sizes that need 64 bits to its own chunk.
        Some(long) if data.len == u64::from(u32::MAX) => long,
        _ => data.len,
    };
    let streamed = match header {
        Header::Wave64 => false,
        _ => claimed == data.len && claimed >= STREAMED_SIZE,
    };
    if streamed || claimed == u64::MAX || (claimed == 0 && samples_follow(source, data.start)?) {
        return Ok(None);
    }
    Ok(Some(claimed))
}

/// Whether bytes after an empty data chunk are audio (a pipe's file) and not just the next chunk.
fn samples_follow(source: &mut Source, at: u64) -> Result<bool, AudioError> {
    let head = source.bytes_at(at, 9)?;
    Ok(head.len() > 8 && !head[..4].iter().all(|byte| (0x20..0x7f).contains(byte)))
}

/// The format chunk, at least 16 bytes.
struct Fmt {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Fmt {
    fn u16_at(&self, at: usize) -> Option<u16> {
        let bytes = [*self.bytes.get(at)?, *self.bytes.get(at + 1)?];
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn number(&self, at: usize) -> usize {
        usize::from(self.u16_at(at).expect("a format chunk has 16 bytes at least"))
    }

    fn layout(
        &self,
        source: &Source,
        format: &'static str,
        data_start: u64,
    ) -> Result<Layout, AudioError> {
        let rate = [self.bytes[4], self.bytes[5], self.bytes[6], self.bytes[7]];
        let rate_hz =
            if self.big_endian { u32::from_be_bytes(rate) } else { u32::from_le_bytes(rate) };
        let (channels, block_len) = (self.number(2), self.number(12));
        let encoding = self.encoding(source, format, channels, block_len)?;
        Ok(Layout {
            format,
            encoding,
            channels,
            rate_hz,
            data_start,
            data_len: None,
            num_frames: None,
        })
    }

    fn encoding(
        &self,
        source: &Source,
        format: &'static str,
        channels: usize,
        block_len: usize,
    ) -> Result<Encoding, AudioError> {
        let bits = self.number(14);
        let mut tag = self.number(0);
        if tag == 0xfffe {
            // WAVE_FORMAT_EXTENSIBLE has the tag at the head of a GUID.
            tag = self.u16_at(24).map_or(tag, usize::from);
        }
        let kind = match tag {
            1 if bits <= 8 => Some(Kind::Unsigned),
            1 => Some(Kind::Signed),
            3 => Some(Kind::Float),
            6 => Some(Kind::ALaw),
            7 => Some(Kind::MuLaw),
            _ => None,
        };
        let known = kind.is_some() || matches!(tag, 2 | 0x11 | 0x31);
        if known && (channels == 0 || block_len == 0) {
            let reason = format!("{channels} channels in {block_len} bytes a frame");
            return Err(source.malformed(format, reason));
        }
        let encoding = if let Some(kind) = kind {
            // Fewer bits than the bytes have room for lie at the top of them.
            let num_bytes = block_len / channels;
            let fits = block_len.is_multiple_of(channels) && (1..=8 * num_bytes).contains(&bits);
            let whole = matches!(kind, Kind::Signed | Kind::Unsigned) || bits == 8 * num_bytes;
            (fits && whole)
                .then(|| SampleFormat::new(kind, num_bytes, self.big_endian))
                .flatten()
                .map(Encoding::Plain)
        } else {
            match tag {
                2 if bits == 4 && !self.big_endian => {
                    MsAdpcm::new(channels, block_len, self.predictors()).map(Encoding::MsAdpcm)
                }
                0x11 if bits == 4 && !self.big_endian => {
                    ImaAdpcm::new(channels, block_len).map(Encoding::ImaAdpcm)
                }
                0x31 if channels == 1 && block_len == 65 => Some(Encoding::Gsm),
                _ => None,
            }
        };
        encoding.ok_or_else(|| {
            let name = match tag {
                1 => format!("{bits}-bit PCM"),
                2 => format!("{bits}-bit Microsoft ADPCM"),
                3 => format!("{bits}-bit float"),
                6 => format!("{bits}-bit A-law"),
                7 => format!("{bits}-bit mu-law"),
                0x11 => format!("{bits}-bit IMA ADPCM"),
                0x31 => "GSM 6.10".into(),
                0x50 => "MPEG".into(),
                0x55 => "MP3".into(),
                0x161 => "Windows Media".into(),
                _ => format!("format tag {tag:#06x}"),
            };
            source.unsupported(format!(
                "{format} with {name} audio ({channels} channels in blocks of {block_len} bytes)"
            ))
        })
    }

    /// The predictors that a Microsoft ADPCM header lists, or the standard ones.
    fn predictors(&self) -> Vec<(i32, i32)> {
        let num = self.u16_at(20).unwrap_or(0).min(256);
        let weight = |at| self.u16_at(at).map(|word| i32::from(word as i16));
        let listed: Vec<_> = (0..usize::from(num))
            .map_while(|i| weight(22 + 4 * i).zip(weight(24 + 4 * i)))
            .collect();
        if listed.is_empty() { MsAdpcm::STANDARD.to_vec() } else { listed }
    }
}
