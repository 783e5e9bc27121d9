//! Tells a container by its first bytes. Names lie: FLAC called `.wav`, error pages saved as audio,
//! Git LFS pointers that were never fetched. ID3v2 tags in front are stepped over.

use super::AudioError;
use super::mpeg::{self, Stream};
use super::source::Source;
use super::wav::Header;

/// The containers with a decoder here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Wav(Header),
    Aiff,
    Au,
    Caf,
    Sphere,
    Flac,
    Ogg,
    Mpeg,
    Adts,
    Mp4,
    Matroska,
}

/// Bytes that are looked at.
const HEAD_LEN: usize = 64;

/// Some writers leave zeros between an ID3v2 tag and the audio.
const MAX_PADDING_LEN: usize = 1 << 16;

/// The container; `source` starts at it afterwards.
pub(super) fn sniff(source: &mut Source) -> Result<Container, AudioError> {
    if source.len() == 0 {
        return Err(AudioError::Empty { path: source.path().into() });
    }
    let mut head = source.bytes_at(0, HEAD_LEN)?;
    let mut tagged = false;
    while head.starts_with(b"ID3") && head.len() >= 10 {
        // The size of an ID3v2 tag is four groups of seven bits; a flag adds a footer of ten bytes.
        let size = head[6..10].iter().fold(0, |size, byte| size << 7 | u64::from(byte & 0x7f));
        let footer_len = if head[5] & 0x10 != 0 { 10 } else { 0 };
        source.rebase(10 + size + footer_len);
        head = source.bytes_at(0, HEAD_LEN)?;
        tagged = true;
    }
    let at = |offset: usize, magic: &[u8]| {
        head.get(offset..).is_some_and(|rest| rest.starts_with(magic))
    };
    let has = |magic: &[u8]| head.windows(magic.len()).any(|window| window == magic);

    let known: [(usize, &[u8], Container); 12] = [
        (0, b"fLaC", Container::Flac),
        (0, b"OggS", Container::Ogg),
        (0, b"caff", Container::Caf),
        (0, b".snd", Container::Au),
        (0, b"NIST_1A", Container::Sphere),
        (0, b"\x1aE\xdf\xa3", Container::Matroska),
        (0, b"riff\x2e\x91\xcf\x11", Container::Wav(Header::Wave64)),
        (4, b"ftyp", Container::Mp4),
        (4, b"moov", Container::Mp4),
        (4, b"mdat", Container::Mp4),
        (8, b"AIFF", Container::Aiff),
        (8, b"AIFC", Container::Aiff),
    ];
    let riffs: [(&[u8], Header); 4] = [
        (b"RIFF", Header::Riff),
        (b"RIFX", Header::Rifx),
        (b"RF64", Header::Rf64),
        (b"BW64", Header::Rf64),
    ];
    if let Some((_, header)) = riffs.into_iter().find(|(magic, _)| at(0, magic) && at(8, b"WAVE")) {
        return Ok(Container::Wav(header));
    }
    if let Some((.., container)) = known.into_iter().find(|(offset, magic, container)| {
        at(*offset, magic) && (*container != Container::Aiff || at(0, b"FORM"))
    }) {
        let inside: [(&[u8], &str); 3] =
            [(b"Speex   ", "Ogg Speex"), (b"\x80theora", "Ogg video"), (b"\x01video", "Ogg video")];
        if container == Container::Ogg
            && let Some((_, format)) = inside.into_iter().find(|(magic, _)| has(magic))
        {
            return Err(source.unsupported(format));
        }
        return Ok(container);
    }
    for (magic, format) in [
        (&b"#!AMR"[..], "AMR"),
        (b"0&\xb2u\x8ef\xcf\x11", "Windows Media"),
        (b"MAC ", "Monkey's Audio"),
        (b"wvpk", "WavPack"),
        (b"TTA1", "True Audio"),
        (b"ajkg", "shorten"),
        (b"RIFF", "RIFF without audio (video or an image)"),
        (b"FORM", "IFF without audio"),
    ] {
        if at(0, magic) {
            return Err(source.unsupported(format));
        }
    }
    let padding_len = if tagged {
        source.bytes_at(0, MAX_PADDING_LEN)?.iter().take_while(|byte| **byte == 0).count()
    } else {
        0
    };
    if let Some(stream) = mpeg::stream_at(source, padding_len as u64)? {
        source.rebase(padding_len as u64);
        return Ok(match stream {
            Stream::Mpeg => Container::Mpeg,
            Stream::Adts => Container::Adts,
        });
    }
    let text = String::from_utf8_lossy(&head).trim_start().to_lowercase();
    let found = if text.starts_with("version https://git-lfs") {
        "a Git LFS pointer; fetch the real file with `git lfs pull`".into()
    } else if text.starts_with("<!doctype html") || text.starts_with("<html") {
        "a web page (most often a download that failed)".into()
    } else if text.starts_with("<?xml") || text.starts_with('{') {
        "an XML or JSON document (most often a download that failed)".into()
    } else if head.is_empty() {
        "nothing follows its ID3 tag".into()
    } else {
        format!("its first bytes are {:02x?}", &head[..head.len().min(12)])
    };
    Err(AudioError::NotAudio { path: source.path().into(), found })
}
