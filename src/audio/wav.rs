//! WAV in all its headers: RIFF, big-endian RIFX, 64-bit RF64 and BW64, Sony Wave64. The chunks are
//! walked here, since sizes lie: recorders die, pipes cannot seek back (size 0 or 0xFFFFFFFF), copies are
//! cut short. The samples that hound decodes are left to it (`wav_samples`). Encodings without a decoder
//! are named (RFC 2361 lists the tags).

use super::AudioError;
use super::adpcm::{ImaAdpcm, MsAdpcm};
use super::chunks::{Chunk, Chunks, Flavour};
use super::layout::{Encoding, Layout, STREAMED_SIZE};
use super::pcm::{Kind, SampleFormat};
use super::source::Source;
use super::wav_samples::WavSamples;

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
                let plain = matches!(layout.encoding, Encoding::Plain(_) | Encoding::Wav(_));
                if !plain && data_len.is_some() {
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
            (fits && whole).then(|| self.plain(kind, num_bytes)).flatten()
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

    fn plain(&self, kind: Kind, num_bytes: usize) -> Option<Encoding> {
        let format = SampleFormat::new(kind, num_bytes, self.big_endian)?;
        Some(WavSamples::new(format).map_or(Encoding::Plain(format), Encoding::Wav))
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

#[cfg(test)]
mod tests {
    use super::super::forge::riff;
    use super::super::tests::{MONO_16K, Scratch, tone};
    use super::super::{Channel, ReadOptions, read};
    use super::*;

    fn fmt(tag: u16, channels: u16, bits: u16) -> Vec<u8> {
        let block = channels * bits / 8;
        let mut out = Vec::new();
        out.extend(tag.to_le_bytes());
        out.extend(channels.to_le_bytes());
        out.extend(16_000_u32.to_le_bytes());
        out.extend((16_000 * u32::from(block)).to_le_bytes());
        out.extend(block.to_le_bytes());
        out.extend(bits.to_le_bytes());
        out
    }

    #[test]
    fn every_pcm_width_has_the_same_scale() {
        let scratch = Scratch::new("widths");
        let want = [0.5_f32, -0.25, 0.0, -1.0];
        for bits in [8_u16, 16, 24, 32] {
            let full = 2_f64.powi(i32::from(bits) - 1);
            let mut data = Vec::new();
            for x in want {
                let value = (f64::from(x) * full) as i64;
                match bits {
                    8 => data.push((value + 128) as u8),
                    _ => data.extend(&value.to_le_bytes()[..usize::from(bits / 8)]),
                }
            }
            let fmt = fmt(1, 1, bits);
            let wav = riff(&[(b"fmt ", 16, &fmt), (b"data", data.len() as u32, &data)]);
            let path = scratch.write("a.wav", &wav);
            assert_eq!(read(&path, None, None, &MONO_16K).unwrap().samples, want, "{bits} bits");
        }
        let data: Vec<u8> = want.iter().flat_map(|x| x.to_le_bytes()).collect();
        let path =
            scratch.write("f.wav", &riff(&[(b"fmt ", 16, &fmt(3, 1, 32)), (b"data", 16, &data)]));
        assert_eq!(read(&path, None, None, &MONO_16K).unwrap().samples, want);
    }

    #[test]
    fn a_data_chunk_shorter_than_promised_is_truncated() {
        let scratch = Scratch::new("truncated");
        let path = scratch.wav("a.wav", 16_000, &[&tone(300.0, 16_000, 1_000)]);
        let bytes = std::fs::read(&path).unwrap();
        for cut in [45, 46, bytes.len() / 2, bytes.len() - 1] {
            let path = scratch.write("b.wav", &bytes[..cut]);
            let error = read(&path, None, None, &MONO_16K).unwrap_err();
            assert!(matches!(error, AudioError::Truncated { .. }), "{cut}: {error}");
            assert!(error.to_string().contains("2000 bytes"), "{error}");
        }
        for cut in 12..44 {
            let path = scratch.write("b.wav", &bytes[..cut]);
            let error = read(&path, None, None, &MONO_16K).unwrap_err();
            assert!(matches!(error, AudioError::Malformed { .. }), "{cut}: {error}");
        }
        let path =
            scratch.write("b.wav", &riff(&[(b"fmt ", 16, &fmt(1, 1, 16)), (b"data", 0, b"")]));
        assert!(read(&path, None, None, &MONO_16K).unwrap().samples.is_empty());
        assert!(matches!(
            read(&path, Some(0.0), Some(1.0), &MONO_16K),
            Err(AudioError::Segment { .. })
        ));
    }

    #[test]
    fn a_lying_header_allocates_nothing() {
        let scratch = Scratch::new("lying");
        let data = [1, 0, 2, 0];
        let fmt = fmt(1, 1, 16);
        for claimed in [u32::MAX, 0x7fff_f000, 0] {
            let wav =
                riff(&[(b"fmt ", 16, &fmt), (b"data", claimed, &[data, data, data].concat())]);
            let path = scratch.write("a.wav", &wav);
            assert_eq!(read(&path, None, None, &MONO_16K).unwrap().samples.len(), 6, "{claimed:x}");
        }
        let path = scratch.write("b.wav", &riff(&[(b"fmt ", 0xffff_fff0, &fmt)]));
        assert!(matches!(read(&path, None, None, &MONO_16K), Err(AudioError::Malformed { .. })));
        let path = scratch.write("c.wav", &riff(&[(b"junk", 0xffff_fff0, &fmt)]));
        assert!(matches!(read(&path, None, None, &MONO_16K), Err(AudioError::Malformed { .. })));
    }

    #[test]
    fn other_encodings_are_named() {
        let scratch = Scratch::new("encodings");
        for (tag, bits, name) in [
            (3, 16, "16-bit float"),
            (1, 12, "12-bit"),
            (2, 8, "Microsoft ADPCM"),
            (0x55, 16, "MP3"),
            (0x1234, 16, "0x1234"),
        ] {
            let wav = riff(&[(b"fmt ", 16, &fmt(tag, 1, bits)), (b"data", 8, &[0; 8])]);
            let text =
                read(&scratch.write("a.wav", &wav), None, None, &MONO_16K).unwrap_err().to_string();
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn chunks_may_surround_the_format_and_nonsense_never_panics() {
        let scratch = Scratch::new("chunks");
        let fmt_bytes = fmt(1, 2, 16);
        let wav = riff(&[
            (b"LIST", 3, b"abc"),
            (b"fmt ", 16, &fmt_bytes),
            (b"data", 8, &[0, 64, 0, 0, 0, 32, 0, 0]),
            (b"LIST", 4, b"abcd"),
        ]);
        let path = scratch.write("a.wav", &wav);
        let options = ReadOptions { channel: Channel::Index(0), ..MONO_16K };
        assert_eq!(read(&path, None, None, &options).unwrap().samples, [0.5, 0.25]);
        for at in 12..wav.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = wav.clone();
                broken[at] = value;
                let _ = read(&scratch.write("b.wav", &broken), None, None, &options);
            }
        }
    }

    #[test]
    fn nan_and_infinity_are_refused_with_their_place() {
        let scratch = Scratch::new("nan");
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let data: Vec<u8> = [0.0, 0.5, bad].iter().flat_map(|x| x.to_le_bytes()).collect();
            let wav = riff(&[(b"fmt ", 16, &fmt(3, 1, 32)), (b"data", 12, &data)]);
            let error = read(&scratch.write("a.wav", &wav), None, None, &MONO_16K).unwrap_err();
            assert!(matches!(error, AudioError::NotFinite { at: 2, .. }), "{error}");
        }
    }
}
