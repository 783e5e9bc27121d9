//! Packets to interleaved frames: symphonia's decoders, and Opus, which it lacks. Vorbis brings its code
//! books with every file, and laying them out takes as long as decoding two seconds; corpora come from one
//! encoder with one set of books, so each thread keeps the last decoder for the next file.

use std::cell::RefCell;

use symphonia::core::codecs::audio::well_known::{CODEC_ID_OPUS, CODEC_ID_VORBIS};
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::packet::Packet;

use super::AudioError;
use super::compressed::Failure;
#[cfg(feature = "opus")]
use super::opus::OpusStream;

/// A Vorbis decoder and the headers it was made from.
type Made = (Box<[u8]>, Box<dyn AudioDecoder>);

thread_local! {
    /// The last one of this thread.
    static VORBIS: RefCell<Option<Made>> = const { RefCell::new(None) };
}

/// The decoder of one track.
pub(super) enum Decoder {
    Symphonia(Box<dyn AudioDecoder>),
    #[cfg(feature = "opus")]
    Opus(Box<OpusStream>),
}

impl Decoder {
    pub(super) fn new(
        params: &AudioCodecParameters,
        options: AudioDecoderOptions,
        failure: Failure,
    ) -> Result<Decoder, AudioError> {
        if params.codec == CODEC_ID_OPUS {
            return opus(params.extra_data.as_deref().unwrap_or_default(), failure);
        }
        if params.codec == CODEC_ID_VORBIS
            && let Some((headers, mut decoder)) = VORBIS.take()
            && params.extra_data.as_ref() == Some(&headers)
        {
            decoder.reset();
            return Ok(Decoder::Symphonia(decoder));
        }
        let decoder = symphonia::default::get_codecs().make_audio_decoder(params, &options);
        decoder.map(Decoder::Symphonia).map_err(|error| match error {
            Error::Unsupported(_) => AudioError::Unsupported {
                path: failure.path.into(),
                format: format!("{} with this codec", failure.format),
            },
            error => failure.explain(error),
        })
    }

    /// Replaces `out` by the interleaved frames of a packet; their rate and number of channels.
    pub(super) fn decode(
        &mut self,
        packet: &Packet,
        out: &mut Vec<f32>,
        failure: Failure,
    ) -> Result<(u32, usize), AudioError> {
        match self {
            Decoder::Symphonia(decoder) => {
                let buffer = decoder.decode(packet).map_err(|error| failure.explain(error))?;
                buffer.copy_to_vec_interleaved(out);
                Ok((buffer.spec().rate(), buffer.spec().channels().count()))
            }
            #[cfg(feature = "opus")]
            Decoder::Opus(opus) => {
                let frames =
                    opus.decode(&packet.data).map_err(|reason| failure.malformed(reason))?;
                out.clear();
                out.extend_from_slice(frames);
                Ok((opus.rate_hz, opus.channels))
            }
        }
    }

    /// Forgets what was decoded before, as after a seek.
    pub(super) fn reset(&mut self) {
        match self {
            Decoder::Symphonia(decoder) => decoder.reset(),
            #[cfg(feature = "opus")]
            Decoder::Opus(opus) => opus.reset(),
        }
    }

    /// Keeps a decoder that did its work without complaint, if the next file may need the same.
    pub(super) fn retire(self, params: Option<&AudioCodecParameters>) {
        if let Decoder::Symphonia(decoder) = self
            && let Some(params) = params.filter(|params| params.codec == CODEC_ID_VORBIS)
            && let Some(headers) = &params.extra_data
        {
            VORBIS.set(Some((headers.clone(), decoder)));
        }
    }

    /// Whether the samples decoded so far are not those that the encoder saw.
    pub(super) fn contradicts_checksum(&mut self) -> bool {
        match self {
            Decoder::Symphonia(decoder) => decoder.finalize().verify_ok == Some(false),
            #[cfg(feature = "opus")]
            Decoder::Opus(_) => false,
        }
    }
}

#[cfg(feature = "opus")]
fn opus(head: &[u8], failure: Failure) -> Result<Decoder, AudioError> {
    let stream = OpusStream::new(head).map_err(|reason| failure.malformed(reason))?;
    Ok(Decoder::Opus(Box::new(stream)))
}

#[cfg(not(feature = "opus"))]
fn opus(_: &[u8], failure: Failure) -> Result<Decoder, AudioError> {
    Err(AudioError::Unsupported {
        path: failure.path.into(),
        format: "Opus (left out of this build: it lacks the feature `opus`)".into(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::MONO_16K;
    use super::super::{Waveform, read_bytes};

    #[test]
    fn what_a_thread_decoded_before_changes_nothing() {
        const DIGITS: &[u8] = include_bytes!("../../tests/fixtures/audio/digits.ogg");
        const TONE: &[u8] = include_bytes!("../../tests/fixtures/audio/tone.ogg");
        let read = |bytes: &'static [u8], offset_s: f64| -> Waveform {
            read_bytes(Path::new("a.ogg"), bytes, Some(offset_s), None, &MONO_16K).unwrap()
        };
        let fresh =
            |bytes, offset_s| std::thread::spawn(move || read(bytes, offset_s)).join().unwrap();
        for (bytes, offset_s) in
            [(DIGITS, 0.0), (DIGITS, 0.0), (TONE, 0.0), (DIGITS, 7.0), (DIGITS, 0.5), (TONE, 0.1)]
        {
            assert_eq!(read(bytes, offset_s), fresh(bytes, offset_s));
        }
        // A file that breaks off leaves no half-fed decoder behind.
        let cut = read_bytes(Path::new("a.ogg"), &DIGITS[..9_000], None, None, &MONO_16K);
        assert!(cut.is_err());
        assert_eq!(read(DIGITS, 0.0), fresh(DIGITS, 0.0));
    }
}
