//! NIST SPHERE: a header of text lines, then PCM or mu-law, as the LDC ships it. Files that were shrunk
//! with shorten are refused with the way to expand them.

use super::AudioError;
use super::layout::{Encoding, Layout};
use super::pcm::{Kind, SampleFormat};
use super::source::Source;

const FORMAT: &str = "NIST SPHERE";

/// Headers are one or two kilobytes.
const MAX_HEADER_LEN: usize = 1 << 16;

pub(super) fn layout(source: &mut Source) -> Result<Layout, AudioError> {
    // "NIST_1A", a line with the header's length, then one field a line: name, type, value.
    let head = source.bytes_at(0, 16)?;
    let header_len = std::str::from_utf8(head.get(8..).unwrap_or_default())
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok())
        .filter(|len| (16..=MAX_HEADER_LEN).contains(len))
        .ok_or_else(|| source.malformed(FORMAT, "its header does not say how long it is"))?;
    let header = source.bytes_at(16, header_len - 16)?;
    let header = String::from_utf8_lossy(&header).into_owned();
    let field = |name: &str| {
        header.lines().take_while(|line| line.trim() != "end_head").find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(name)).then(|| words.nth(1)).flatten()
        })
    };
    let number = |name: &str| -> Result<Option<u32>, AudioError> {
        let Some(text) = field(name) else {
            return Ok(None);
        };
        let value = text.parse().map_err(|_| {
            source.malformed(FORMAT, format!("its field {name} is {text:?}, not a count"))
        })?;
        Ok(Some(value))
    };
    let needed = |name: &str| {
        number(name)?.ok_or_else(|| source.malformed(FORMAT, format!("it has no field {name}")))
    };
    let rate_hz = needed("sample_rate")?;
    let channels = number("channel_count")?.unwrap_or(1) as usize;
    let num_bytes = number("sample_n_bytes")?.unwrap_or(2) as usize;
    let num_frames = number("sample_count")?;
    let coding = field("sample_coding").unwrap_or("pcm");
    let byte_order = field("sample_byte_format");
    if coding.contains("shorten") || is_shortened(source, header_len)? {
        return Err(AudioError::Shortened { path: source.path().into() });
    }
    let kind = match coding {
        "pcm" => Kind::Signed,
        "ulaw" | "mu-law" => Kind::MuLaw,
        "alaw" => Kind::ALaw,
        other => return Err(source.unsupported(format!("{FORMAT} with {other} audio"))),
    };
    let big_endian = match byte_order {
        _ if num_bytes == 1 => false,
        Some(order) if "0123".starts_with(order) => false,
        Some(order) if "3210".ends_with(order) => true,
        other => {
            let found = other.unwrap_or("missing");
            let reason = format!("its sample_byte_format is {found} for {num_bytes} bytes");
            return Err(source.malformed(FORMAT, reason));
        }
    };
    let format = SampleFormat::new(kind, num_bytes, big_endian)
        .ok_or_else(|| source.unsupported(format!("{FORMAT} with {num_bytes}-byte {coding}")))?;
    let frame_len = (num_bytes * channels) as u64;
    Ok(Layout {
        format: FORMAT,
        encoding: Encoding::Plain(format),
        channels,
        rate_hz,
        data_start: header_len as u64,
        data_len: num_frames.map(|frames| u64::from(frames) * frame_len),
        num_frames: None,
    })
}

/// Some headers do not say so: shorten's own magic decides.
fn is_shortened(source: &mut Source, header_len: usize) -> Result<bool, AudioError> {
    Ok(source.bytes_at(header_len as u64, 4)? == b"ajkg")
}
