//! RIFF WAV. The chunks are walked here, since a decoder that trusts their sizes can be lied to by
//! recorders that died, pipes that could not seek back (size 0 or 0xFFFFFFFF) and copies cut short;
//! hound then decodes the data chunk from a header rebuilt with the length that is really there.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use hound::{SampleFormat, WavReader};

use super::channel::ChannelPicker;
use super::{AudioError, Decoded, Segment, check_rate};

/// A size of this and above is a pipe's "unknown": `sox` and `ffmpeg` write such numbers.
const STREAMED_SIZE: u32 = 0x7fff_0000;

/// No real format chunk is longer.
const MAX_FMT_LEN: u32 = 4_096;

struct Layout {
    fmt: Vec<u8>,
    data_start: u64,
    data_len: u64,
}

pub(super) fn decode(
    mut file: File,
    path: &Path,
    start: u64,
    segment: Segment,
    picker: &ChannelPicker,
) -> Result<Decoded, AudioError> {
    let read_error = |source| AudioError::Read { path: path.into(), source };
    let layout = walk_chunks(&mut file, path, start)?;
    let fmt_u16 = |at: usize| u16::from_le_bytes([layout.fmt[at], layout.fmt[at + 1]]);
    let rate_hz = u32::from_le_bytes([layout.fmt[4], layout.fmt[5], layout.fmt[6], layout.fmt[7]]);
    let (channels, block_len) = (usize::from(fmt_u16(2)), u64::from(fmt_u16(12)));
    check_encoding(path, &layout.fmt)?;
    check_rate(path, "WAV", rate_hz)?;
    if channels == 0 || block_len == 0 {
        let reason = format!("{channels} channels in {block_len} bytes a frame");
        return Err(AudioError::Malformed { path: path.into(), format: "WAV", reason });
    }
    picker.check(channels)?;

    let num_frames = layout.data_len / block_len;
    let (first, end) = segment.frames(rate_hz);
    let (first, end) = (first.min(num_frames), end.min(num_frames));
    let data_len = (end - first) * block_len;
    file.seek(SeekFrom::Start(layout.data_start + first * block_len)).map_err(read_error)?;
    let source =
        header(&layout.fmt, data_len).chain(BufReader::with_capacity(1 << 16, file).take(data_len));
    let reader = WavReader::new(source).map_err(|error| from_hound(path, error))?;

    let spec = reader.spec();
    let mut frame = Vec::with_capacity(channels);
    // At most what the file really holds, whatever the header says.
    let mut samples = Vec::with_capacity((end - first) as usize);
    let mut push = |x: f32| {
        frame.push(x);
        if frame.len() == channels {
            samples.push(picker.pick(&frame));
            frame.clear();
        }
    };
    match spec.sample_format {
        SampleFormat::Float => {
            for x in reader.into_samples::<f32>() {
                push(x.map_err(|error| from_hound(path, error))?);
            }
        }
        SampleFormat::Int => {
            let scale = 1.0 / (1_u64 << (spec.bits_per_sample.clamp(1, 32) - 1)) as f32;
            for x in reader.into_samples::<i32>() {
                push(x.map_err(|error| from_hound(path, error))? as f32 * scale);
            }
        }
    }
    Ok(Decoded { samples, rate_hz, num_frames })
}

/// Finds `fmt ` and `data`; chunks may come in any order before `data` and are padded to even length.
fn walk_chunks(file: &mut File, path: &Path, start: u64) -> Result<Layout, AudioError> {
    let malformed =
        |reason: String| AudioError::Malformed { path: path.into(), format: "WAV", reason };
    let read_error = |source: io::Error| {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            malformed("it ends within its header: no audio data follows".into())
        } else {
            AudioError::Read { path: path.into(), source }
        }
    };
    let file_len = file.metadata().map_err(read_error)?.len();
    let mut at = start + 12;
    let mut fmt = None;
    loop {
        file.seek(SeekFrom::Start(at)).map_err(read_error)?;
        let mut head = [0; 8];
        file.read_exact(&mut head).map_err(read_error)?;
        let id = [head[0], head[1], head[2], head[3]];
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        at += 8;
        match &id {
            b"fmt " if (16..=MAX_FMT_LEN).contains(&len) => {
                let mut bytes = vec![0; len as usize];
                file.read_exact(&mut bytes).map_err(read_error)?;
                fmt = Some(bytes);
            }
            b"fmt " => return Err(malformed(format!("its format chunk has {len} bytes"))),
            b"data" => {
                let fmt = fmt.ok_or_else(|| malformed("no format chunk before the data".into()))?;
                let available = file_len - at;
                let streamed =
                    len >= STREAMED_SIZE || (len == 0 && samples_follow(file, available));
                if u64::from(len) > available && !streamed {
                    return Err(AudioError::Truncated {
                        path: path.into(),
                        promised: format!("{len} bytes of audio"),
                        found: format!("{available}"),
                    });
                }
                let data_len = if streamed { available } else { u64::from(len) };
                return Ok(Layout { fmt, data_start: at, data_len });
            }
            _ => {}
        }
        at += u64::from(len) + u64::from(len & 1);
    }
}

/// Whether bytes after an empty data chunk are audio (a pipe's file) and not just the next chunk.
fn samples_follow(file: &mut File, available: u64) -> bool {
    let mut id = [0; 4];
    available > 8
        && file.read_exact(&mut id).is_ok()
        && !id.iter().all(|byte| (0x20..0x7f).contains(byte))
}

/// Names the encodings that hound does not decode.
fn check_encoding(path: &Path, fmt: &[u8]) -> Result<(), AudioError> {
    let u16_at = |at: usize| u16::from_le_bytes([fmt[at], fmt[at + 1]]);
    let (mut tag, bits) = (u16_at(0), u16_at(14));
    if tag == 0xfffe && fmt.len() >= 26 {
        tag = u16_at(24);
    }
    let name = match (tag, bits) {
        (1, 8 | 16 | 24 | 32) | (3, 32) => return Ok(()),
        (1, _) => format!("{bits}-bit PCM"),
        (3, _) => format!("{bits}-bit float"),
        (2, _) => "Microsoft ADPCM".into(),
        (6, _) => "A-law".into(),
        (7, _) => "mu-law".into(),
        (0x11, _) => "IMA ADPCM".into(),
        (0x31, _) => "GSM 6.10".into(),
        (0x55, _) => "MP3".into(),
        _ => format!("format tag {tag:#06x}"),
    };
    Err(AudioError::Unsupported { path: path.into(), format: format!("WAV with {name} audio") })
}

/// A header of exactly one format and one data chunk.
fn header(fmt: &[u8], data_len: u64) -> Cursor<Vec<u8>> {
    let data_len = u32::try_from(data_len).unwrap_or(u32::MAX);
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt ".to_vec();
    bytes.extend((fmt.len() as u32).to_le_bytes());
    bytes.extend(fmt);
    bytes.extend(b"data");
    bytes.extend(data_len.to_le_bytes());
    Cursor::new(bytes)
}

fn from_hound(path: &Path, error: hound::Error) -> AudioError {
    match error {
        hound::Error::IoError(source) => AudioError::Read { path: path.into(), source },
        other => {
            AudioError::Malformed { path: path.into(), format: "WAV", reason: other.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
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

    fn riff(chunks: &[(&[u8; 4], u32, &[u8])]) -> Vec<u8> {
        let mut out = b"RIFF\0\0\0\0WAVE".to_vec();
        for (id, len, bytes) in chunks {
            out.extend(*id);
            out.extend(len.to_le_bytes());
            out.extend(*bytes);
            out.extend(vec![0; bytes.len() % 2]);
        }
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
        assert!(matches!(read(&path, None, None, &MONO_16K), Err(AudioError::NoSamples { .. })));
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
            (7, 8, "mu-law"),
            (6, 8, "A-law"),
            (3, 64, "64-bit float"),
            (1, 12, "12-bit"),
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
