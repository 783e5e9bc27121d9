//! FLAC and Ogg Vorbis through symphonia. A FLAC file is checked against the length and the MD5 its
//! encoder wrote, an Ogg stream against its end-of-stream page, so that a cut copy is an error and not
//! a shorter utterance.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;

use super::channel::ChannelPicker;
use super::sniff::Container;
use super::{AudioError, Decoded, Segment, check_rate};

/// The longest an Ogg page can be (RFC 3533: 27 + 255 + 255 * 255 bytes).
const MAX_OGG_PAGE_LEN: u64 = 65_307;

pub(super) fn decode(
    mut file: File,
    path: &Path,
    container: Container,
    segment: Segment,
    picker: &ChannelPicker,
) -> Result<Decoded, AudioError> {
    let format = if container == Container::Flac { "FLAC" } else { "Ogg Vorbis" };
    let malformed = |reason: String| AudioError::Malformed { path: path.into(), format, reason };
    let explain = |error: Error| match error {
        Error::IoError(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            AudioError::Read { path: path.into(), source }
        }
        other => malformed(other.to_string()),
    };
    if container == Container::Ogg {
        check_ogg_end(&mut file, path)?;
    }
    let stream = MediaSourceStream::new(Box::new(file), Default::default());
    let mut reader = symphonia::default::get_probe()
        .probe(&Hint::new(), stream, FormatOptions::default(), MetadataOptions::default())
        .map_err(explain)?;
    let track = reader
        .default_track(TrackType::Audio)
        .ok_or_else(|| malformed("no audio stream".into()))?;
    let (track_id, promised) = (track.id, track.num_frames);
    let params = track.codec_params.as_ref().and_then(|params| params.audio());
    let params = params.ok_or_else(|| malformed("its audio stream has no parameters".into()))?;
    let options = AudioDecoderOptions::default().verify(segment.is_whole());
    let mut decoder =
        symphonia::default::get_codecs().make_audio_decoder(params, &options).map_err(explain)?;

    let mut layout: Option<(u32, usize)> = None;
    let (mut samples, mut interleaved): (Vec<f32>, Vec<f32>) = (Vec::new(), Vec::new());
    let mut num_frames = 0;
    loop {
        let packet = match reader.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => break,
            Err(Error::IoError(source)) if source.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(Error::ResetRequired) => {
                return Err(malformed("several streams follow each other".into()));
            }
            Err(error) => return Err(explain(error)),
        };
        if packet.track_id != track_id {
            continue;
        }
        let buffer = decoder.decode(&packet).map_err(explain)?;
        let (rate_hz, channels) = (buffer.spec().rate(), buffer.spec().channels().count());
        match layout {
            None => {
                check_rate(path, format, rate_hz)?;
                picker.check(channels)?;
                layout = Some((rate_hz, channels));
            }
            Some(known) if known != (rate_hz, channels) => {
                return Err(malformed("its rate or channel count changes on the way".into()));
            }
            Some(_) => {}
        }
        if channels == 0 {
            return Err(malformed("it has no channels".into()));
        }
        buffer.copy_to_vec_interleaved(&mut interleaved);
        let (first, end) = segment.frames(rate_hz);
        for frame in interleaved.chunks_exact(channels) {
            if num_frames >= first && num_frames < end {
                samples.push(picker.pick(frame));
            }
            num_frames += 1;
        }
    }
    if let Some(promised) = promised.filter(|promised| *promised > num_frames) {
        return Err(AudioError::Truncated {
            path: path.into(),
            promised: format!("{promised} samples"),
            found: format!("only {num_frames} that can be decoded"),
        });
    }
    if decoder.finalize().verify_ok == Some(false) {
        return Err(malformed(
            "the decoded samples do not match the checksum of its encoder".into(),
        ));
    }
    let Some((rate_hz, _)) = layout else {
        return Err(AudioError::NoSamples { path: path.into() });
    };
    Ok(Decoded { samples, rate_hz, num_frames })
}

/// The last page of an Ogg file must be whole and carry the end-of-stream flag (RFC 3533, section 6).
fn check_ogg_end(file: &mut File, path: &Path) -> Result<(), AudioError> {
    let read_error = |source| AudioError::Read { path: path.into(), source };
    let len = file.metadata().map_err(read_error)?.len();
    let tail_start = len.saturating_sub(2 * MAX_OGG_PAGE_LEN);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(tail_start)).map_err(read_error)?;
    file.read_to_end(&mut tail).map_err(read_error)?;
    file.seek(SeekFrom::Start(0)).map_err(read_error)?;
    // The capture pattern may also occur inside a page: the last one that parses decides.
    let whole_end = tail.windows(4).enumerate().rev().filter(|(_, window)| *window == b"OggS").any(
        |(at, _)| {
            let page = &tail[at..];
            let Some(&num_segments) = page.get(26) else {
                return false;
            };
            let lacing = page.get(27..27 + usize::from(num_segments));
            let body: Option<usize> =
                lacing.map(|lacing| lacing.iter().map(|&n| usize::from(n)).sum());
            let is_end = page[4] == 0 && page[5] & 4 != 0;
            is_end && body.is_some_and(|body| 27 + usize::from(num_segments) + body <= page.len())
        },
    );
    if whole_end {
        return Ok(());
    }
    Err(AudioError::Truncated {
        path: path.into(),
        promised: "a last page marked as the end of the stream".into(),
        found: format!("{len} bytes without one"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MONO_16K, Scratch, tone};
    use super::super::{Channel, ReadOptions, read};
    use super::*;

    const TONE_FLAC: &[u8] = include_bytes!("../../tests/fixtures/audio/tone.flac");
    const TONE_OGG: &[u8] = include_bytes!("../../tests/fixtures/audio/tone.ogg");
    const STEREO_FLAC: &[u8] = include_bytes!("../../tests/fixtures/audio/stereo.flac");

    fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn flac_is_exact_and_vorbis_close_whatever_the_file_is_called() {
        let scratch = Scratch::new("compressed");
        let want = tone(440.0, 16_000, 4_800);
        for (name, bytes, tolerance) in [("a.wav", TONE_FLAC, 2e-3), ("a.flac", TONE_OGG, 0.05)] {
            let got = read(&scratch.write(name, bytes), None, None, &MONO_16K).unwrap();
            assert_eq!(got.samples.len(), 4_800);
            assert!(largest_difference(&got.samples, &want) < tolerance, "{name}");
        }
    }

    #[test]
    fn a_segment_is_a_cut_of_the_whole() {
        let scratch = Scratch::new("compressed-segment");
        for bytes in [TONE_FLAC, TONE_OGG] {
            let path = scratch.write("a", bytes);
            let whole = read(&path, None, None, &MONO_16K).unwrap().samples;
            let part = read(&path, Some(0.1), Some(0.05), &MONO_16K).unwrap().samples;
            assert_eq!(part, whole[1_600..2_400]);
        }
    }

    #[test]
    fn channels_stay_apart() {
        let scratch = Scratch::new("compressed-stereo");
        let path = scratch.write("a.flac", STEREO_FLAC);
        assert!(matches!(
            read(&path, None, None, &MONO_16K),
            Err(AudioError::Channels { channels: 2, .. })
        ));
        for (index, hz) in [(0, 440.0), (1, 880.0)] {
            let options = ReadOptions { channel: Channel::Index(index), ..MONO_16K };
            let got = read(&path, None, None, &options).unwrap().samples;
            assert!(largest_difference(&got, &tone(hz, 16_000, 3_200)) < 2e-3);
        }
    }

    #[test]
    fn no_cut_copy_passes_for_a_shorter_recording() {
        let scratch = Scratch::new("compressed-cut");
        for bytes in [TONE_FLAC, TONE_OGG] {
            for cut in (1..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
                let path = scratch.write("a", &bytes[..cut]);
                assert!(read(&path, None, None, &MONO_16K).is_err(), "{cut} of {}", bytes.len());
            }
            let path = scratch.write("a", &bytes[..bytes.len() * 2 / 3]);
            let error = read(&path, None, None, &MONO_16K).unwrap_err();
            assert!(matches!(error, AudioError::Truncated { .. }), "{error}");
        }
    }

    #[test]
    fn damaged_flac_is_noticed_and_damage_never_panics() {
        let scratch = Scratch::new("compressed-damage");
        for (bytes, checked) in [(TONE_FLAC, true), (TONE_OGG, false)] {
            let middle = bytes.len() / 2;
            for at in [4, 10, 30, middle, middle + 1, bytes.len() - 3] {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 0x55;
                let result = read(&scratch.write("a", &damaged), None, None, &MONO_16K);
                assert!(!checked || at < middle || result.is_err(), "{at}");
            }
        }
    }
}
