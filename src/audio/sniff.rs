//! Tells a container by its first bytes. Names lie: FLAC called `.wav`, error pages saved as audio,
//! Git LFS pointers that were never fetched. An ID3v2 tag in front is stepped over.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::AudioError;

/// The containers with a decoder here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Wav,
    Flac,
    Ogg,
}

/// The container and where it starts.
pub(super) fn sniff(file: &mut File, path: &Path) -> Result<(Container, u64), AudioError> {
    let read_error = |source| AudioError::Read { path: path.into(), source };
    let mut head = head_at(file, 0).map_err(read_error)?;
    if head.is_empty() {
        return Err(AudioError::Empty { path: path.into() });
    }
    let mut start = 0;
    if head.starts_with(b"ID3") && head.len() >= 10 {
        // The size of an ID3v2 tag is four groups of seven bits.
        let size = head[6..10].iter().fold(0, |size, byte| size << 7 | u64::from(byte & 0x7f));
        start = 10 + size;
        head = head_at(file, start).map_err(read_error)?;
    }
    let unsupported =
        |format: &str| AudioError::Unsupported { path: path.into(), format: format.into() };
    let at = |offset: usize, magic: &[u8]| {
        head.get(offset..).is_some_and(|rest| rest.starts_with(magic))
    };
    let has = |magic: &[u8]| head.windows(magic.len()).any(|window| window == magic);

    if at(0, b"RIFF") && at(8, b"WAVE") {
        return Ok((Container::Wav, start));
    }
    if at(0, b"fLaC") {
        return Ok((Container::Flac, start));
    }
    if at(0, b"OggS") {
        for (magic, format) in [
            (&b"OpusHead"[..], "Ogg Opus"),
            (b"Speex   ", "Ogg Speex"),
            (b"\x7fFLAC", "FLAC inside Ogg"),
            (b"\x80theora", "Ogg video"),
        ] {
            if has(magic) {
                return Err(unsupported(format));
            }
        }
        return Ok((Container::Ogg, start));
    }
    let known: [(usize, &[u8], &str); 12] = [
        (0, b"RIFX", "big-endian WAV (RIFX)"),
        (0, b"RF64", "64-bit WAV (RF64)"),
        (0, b"BW64", "64-bit WAV (BW64)"),
        (0, b"riff\x2e\x91\xcf\x11", "Sony Wave64"),
        (0, b"FORM", "AIFF"),
        (0, b"caff", "Apple CAF"),
        (0, b".snd", "Sun AU"),
        (0, b"NIST_1A", "NIST SPHERE"),
        (4, b"ftyp", "MP4/M4A"),
        (0, b"\x1aE\xdf\xa3", "Matroska/WebM"),
        (0, b"#!AMR", "AMR"),
        (0, b"0&\xb2u\x8ef\xcf\x11", "Windows Media"),
    ];
    for (offset, magic, format) in known {
        if at(offset, magic) {
            return Err(unsupported(format));
        }
    }
    if head.len() >= 2 && head[0] == 0xff && head[1] & 0xe0 == 0xe0 {
        return Err(unsupported(if head[1] & 0x06 == 0 { "AAC (ADTS)" } else { "MP3" }));
    }
    let text = String::from_utf8_lossy(&head).trim_start().to_lowercase();
    let found = if text.starts_with("version https://git-lfs") {
        "a Git LFS pointer; fetch the real file with `git lfs pull`".into()
    } else if text.starts_with("<!doctype html") || text.starts_with("<html") {
        "a web page (most often a download that failed)".into()
    } else if text.starts_with("<?xml") || text.starts_with('{') {
        "an XML or JSON document (most often a download that failed)".into()
    } else {
        format!("its first bytes are {:02x?}", &head[..head.len().min(12)])
    };
    Err(AudioError::NotAudio { path: path.into(), found })
}

/// Up to 64 bytes from `start` on.
fn head_at(file: &mut File, start: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut head = Vec::with_capacity(64);
    file.take(64).read_to_end(&mut head)?;
    Ok(head)
}
