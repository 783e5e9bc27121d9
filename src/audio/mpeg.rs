//! Recognises raw MPEG streams, which have no magic: a frame's header must be plausible and another one
//! of the same kind must follow where the frame ends (ISO 11172-3 2.4.1.3, ISO 13818-7 6.2).

use super::AudioError;
use super::source::Source;

/// The kinds of raw stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// MP3, or layer I or II.
    Mpeg,
    /// AAC.
    Adts,
}

/// Kilobits a second of each index, for MPEG-1 layers I to III, then MPEG-2 layer I and the others.
const BIT_RATES: [[u64; 15]; 5] = [
    [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

/// The stream that starts at `at`, if one does.
pub(super) fn stream_at(source: &mut Source, at: u64) -> Result<Option<Stream>, AudioError> {
    let head = source.bytes_at(at, 7)?;
    let Some((stream, frame_len)) = frame(&head) else {
        return Ok(None);
    };
    let next = source.bytes_at(at + frame_len, 7)?;
    // A file may end after one frame.
    let follows = next.is_empty() || frame(&next).is_some_and(|(next, _)| next == stream);
    Ok(follows.then_some(stream))
}

/// The kind and the length of the frame with this header.
fn frame(head: &[u8]) -> Option<(Stream, u64)> {
    let [sync, kind, third, fourth, rest @ ..] = head else {
        return None;
    };
    let (sync, kind, third, fourth) = (*sync, *kind, *third, *fourth);
    if sync != 0xff || kind & 0xe0 != 0xe0 {
        return None;
    }
    if kind & 0xf6 == 0xf0 {
        let [fifth, sixth, ..] = rest else {
            return None;
        };
        let len = u64::from(fourth & 3) << 11 | u64::from(*fifth) << 3 | u64::from(*sixth) >> 5;
        return (third >> 2 & 15 < 13 && len >= 7).then_some((Stream::Adts, len));
    }
    let version = kind >> 3 & 3;
    let layer = 4 - u64::from(kind >> 1 & 3);
    let rate_index = usize::from(third >> 2 & 3);
    let bit_rate_index = usize::from(third >> 4);
    if version == 1 || layer == 4 || rate_index == 3 || bit_rate_index == 15 {
        return None;
    }
    // Versions: 3 is MPEG-1, 2 is MPEG-2, 0 is MPEG-2.5.
    let rate = [44_100, 48_000, 32_000][rate_index] >> [2, 0, 1, 0][usize::from(version)];
    let table = match (version, layer) {
        (3, _) => layer as usize - 1,
        (_, 1) => 3,
        _ => 4,
    };
    let bits_per_s = 1_000 * BIT_RATES[table][bit_rate_index];
    if bits_per_s == 0 {
        return None;
    }
    let padding = u64::from(third >> 1 & 1);
    let len = match (layer, version) {
        (1, _) => (12 * bits_per_s / rate + padding) * 4,
        (2, _) | (3, 3) => 144 * bits_per_s / rate + padding,
        _ => 72 * bits_per_s / rate + padding,
    };
    Some((Stream::Mpeg, len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn lengths_are_those_of_well_known_frames() {
        // 128 kbit/s at 44.1 kHz, 64 kbit/s at 16 kHz (MPEG-2), 32 kbit/s at 8 kHz (MPEG-2.5).
        for (head, len) in [
            ([0xff, 0xfb, 0x90, 0x64], 417),
            ([0xff, 0xf3, 0x88, 0xc4], 288),
            ([0xff, 0xe3, 0x48, 0xc4], 288),
        ] {
            assert_eq!(frame(&head), Some((Stream::Mpeg, len)), "{head:x?}");
        }
        for bad in [[0xff, 0xeb, 0x90, 0], [0xff, 0xfb, 0xf0, 0], [0xff, 0xfb, 0x9c, 0]] {
            assert_eq!(frame(&bad), None);
        }
    }

    #[test]
    fn one_header_in_noise_is_no_stream() {
        let mut bytes = vec![0x11; 2_000];
        bytes[..4].copy_from_slice(&[0xff, 0xfb, 0x90, 0x64]);
        let stream = |bytes: &[u8]| stream_at(&mut Source::memory(Path::new("a"), bytes), 0);
        assert_eq!(stream(&bytes).unwrap(), None);
        bytes[417..421].copy_from_slice(&[0xff, 0xfb, 0x90, 0x64]);
        assert_eq!(stream(&bytes).unwrap(), Some(Stream::Mpeg));
        assert_eq!(stream(&bytes[..417]).unwrap(), Some(Stream::Mpeg));
        assert_eq!(stream(&[0xff]).unwrap(), None);
    }
}
