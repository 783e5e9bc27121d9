//! Packets to interleaved frames: symphonia's decoders, and Opus, which it lacks.

use symphonia::core::codecs::audio::well_known::CODEC_ID_OPUS;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::packet::Packet;

use super::AudioError;
use super::compressed::Failure;
#[cfg(feature = "opus")]
use super::opus::OpusStream;

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
