//! Where the samples of an uncompressed recording lie, as its header says it, held against what the
//! file holds. All readers of such containers (WAV, AIFF, CAF, AU, SPHERE) end here.

use super::adpcm::{ImaAdpcm, MsAdpcm};
use super::channel::ChannelPicker;
use super::gsm::Gsm;
use super::pcm::SampleFormat;
use super::source::Source;
use super::wav_samples::WavSamples;
use super::{AudioError, Decoded, Segment, check_rate};

/// Bytes decoded at a time: few calls, and well within the second-level cache.
const CHUNK_LEN: usize = 1 << 16;

/// A size of this and above in 32 bits is a pipe's "unknown": `sox` and `ffmpeg` write such numbers.
pub(super) const STREAMED_SIZE: u64 = 0x7fff_0000;

/// How samples are written.
pub(super) enum Encoding {
    Plain(SampleFormat),
    /// What hound decodes of WAV.
    Wav(WavSamples),
    ImaAdpcm(ImaAdpcm),
    MsAdpcm(MsAdpcm),
    /// Two frames of 160 samples in 65 bytes, as WAV packs them.
    Gsm,
}

/// One uncompressed recording.
pub(super) struct Layout {
    /// The container, for messages.
    pub format: &'static str,
    pub encoding: Encoding,
    pub channels: usize,
    pub rate_hz: u32,
    pub data_start: u64,
    /// Bytes of audio that the header promises; `None` for "to the end".
    pub data_len: Option<u64>,
    /// Frames that the header promises, where blocks may be filled up.
    pub num_frames: Option<u64>,
}

impl Layout {
    /// Bytes and frames of one block.
    fn block(&self) -> (usize, usize) {
        match &self.encoding {
            Encoding::Plain(format) => (format.num_bytes * self.channels, 1),
            Encoding::Wav(format) => (format.num_bytes() * self.channels, 1),
            Encoding::ImaAdpcm(codec) => (codec.block_len(), codec.frames_per_block()),
            Encoding::MsAdpcm(codec) => (codec.block_len(), codec.frames_per_block()),
            Encoding::Gsm => (Gsm::BLOCK_LEN, Gsm::FRAMES_PER_BLOCK),
        }
    }

    /// Frames in `data_len` bytes; the last block of ADPCM may be a short one.
    fn frames_in(&self, data_len: u64) -> u64 {
        let (block_len, block_frames) = self.block();
        let rest = (data_len % block_len as u64) as usize;
        let rest_frames = match &self.encoding {
            Encoding::Plain(_) | Encoding::Wav(_) | Encoding::Gsm => 0,
            Encoding::ImaAdpcm(codec) => codec.frames_in(rest),
            Encoding::MsAdpcm(codec) => codec.frames_in(rest),
        };
        (data_len / block_len as u64) * block_frames as u64 + rest_frames as u64
    }

    /// Decodes the segment and nothing else, except that GSM blocks depend on those before.
    pub(super) fn decode(
        &self,
        source: &mut Source,
        segment: Segment,
        picker: &ChannelPicker,
    ) -> Result<Decoded, AudioError> {
        check_rate(source.path(), self.format, self.rate_hz)?;
        if self.channels == 0 {
            return Err(source.malformed(self.format, "it has no channels"));
        }
        picker.check(self.channels)?;
        let available = source.len().saturating_sub(self.data_start);
        let data_len = self.data_len.unwrap_or(available);
        if data_len > available {
            return Err(AudioError::Truncated {
                path: source.path().into(),
                promised: format!("{data_len} bytes of audio"),
                found: format!("{available}"),
            });
        }
        let mut num_frames = self.frames_in(data_len);
        if let Some(promised) = self.num_frames {
            if promised > num_frames {
                return Err(AudioError::Truncated {
                    path: source.path().into(),
                    promised: format!("{promised} samples"),
                    found: format!("{num_frames}"),
                });
            }
            num_frames = promised;
        }

        let (first, end) = segment.frames(self.rate_hz);
        let (first, end) = (first.min(num_frames), end.min(num_frames));
        let (block_len, block_frames) = self.block();
        let first_block = match self.encoding {
            Encoding::Gsm => 0,
            _ => first / block_frames as u64,
        };
        let mut at = self.data_start + first_block * block_len as u64;
        let data_end = self.data_start + data_len;
        let mut frame = first_block * block_frames as u64;
        let mut gsm = Gsm::new();
        // At most what the file really holds, whatever the header says.
        let mut samples = Vec::with_capacity((end - first) as usize);
        let mut interleaved = Vec::new();
        let max_len = (CHUNK_LEN / block_len).max(1) * block_len;
        while frame < end && at < data_end {
            let wanted_len = ((end - frame).div_ceil(block_frames as u64))
                .saturating_mul(block_len as u64)
                .min(data_end - at)
                .min(max_len as u64);
            let bytes = source.bytes_at(at, wanted_len as usize)?;
            if bytes.is_empty() {
                break;
            }
            interleaved.clear();
            match &self.encoding {
                Encoding::Plain(format) => format.decode(&bytes, &mut interleaved),
                Encoding::Wav(format) => format
                    .decode(&bytes, &mut interleaved)
                    .map_err(|error| source.malformed(self.format, error.to_string()))?,
                Encoding::ImaAdpcm(codec) => codec.decode(&bytes, &mut interleaved),
                Encoding::MsAdpcm(codec) => codec
                    .decode(&bytes, &mut interleaved)
                    .map_err(|reason| source.malformed(self.format, reason))?,
                Encoding::Gsm => gsm.decode(&bytes, &mut interleaved),
            }
            let decoded = (interleaved.len() / self.channels) as u64;
            let from = first.saturating_sub(frame).min(decoded) as usize;
            let to = (end - frame).min(decoded) as usize;
            let wanted = &interleaved[from.min(to) * self.channels..to * self.channels];
            picker.append(wanted, self.channels, &mut samples);
            frame += decoded;
            at += bytes.len() as u64;
        }
        Ok(Decoded { samples, rate_hz: self.rate_hz, num_frames })
    }
}
