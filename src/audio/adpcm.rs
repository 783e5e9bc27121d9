//! Four bits a sample in blocks that stand alone: IMA (IMA Recommended Practices, 1992) and Microsoft
//! ADPCM, as WAV files carry them. A block starts with whole samples, so segments begin at any block.

const IMA_STEPS: [i32; 89] = [
    7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66,
    73, 80, 88, 97, 107, 118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449,
    494, 544, 598, 658, 724, 796, 876, 963, 1060, 1166, 1282, 1411, 1552, 1707, 1878, 2066, 2272,
    2499, 2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894, 6484, 7132, 7845, 8630, 9493,
    10442, 11487, 12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794, 32767,
];

const IMA_STEP_CHANGES: [i32; 8] = [-1, -1, -1, -1, 2, 4, 6, 8];

const MS_STEP_FACTORS: [i32; 16] =
    [230, 230, 230, 230, 307, 409, 512, 614, 768, 614, 512, 409, 307, 230, 230, 230];

const I16: f32 = 1.0 / 32_768.0;

/// IMA ADPCM with blocks of one size.
pub(super) struct ImaAdpcm {
    channels: usize,
    block_len: usize,
}

impl ImaAdpcm {
    /// `None` when not even the whole samples fit in a block.
    pub(super) fn new(channels: usize, block_len: usize) -> Option<ImaAdpcm> {
        (channels > 0 && block_len >= 4 * channels).then_some(ImaAdpcm { channels, block_len })
    }

    pub(super) fn block_len(&self) -> usize {
        self.block_len
    }

    pub(super) fn frames_per_block(&self) -> usize {
        self.frames_in(self.block_len)
    }

    /// Frames in a block of `len` bytes: one in the head, then eight in every four bytes a channel.
    pub(super) fn frames_in(&self, len: usize) -> usize {
        match len.checked_sub(4 * self.channels) {
            Some(body) => 1 + body / (4 * self.channels) * 8,
            None => 0,
        }
    }

    /// Appends the frames of these blocks; the last may be short.
    pub(super) fn decode(&self, bytes: &[u8], out: &mut Vec<f32>) {
        for block in bytes.chunks(self.block_len) {
            let num_frames = self.frames_in(block.len());
            if num_frames == 0 {
                return;
            }
            let first = out.len();
            out.resize(first + num_frames * self.channels, 0.0);
            let (heads, body) = block.split_at(4 * self.channels);
            for channel in 0..self.channels {
                let head = &heads[4 * channel..][..4];
                let mut sample = i32::from(i16::from_le_bytes([head[0], head[1]]));
                let mut index = i32::from(head[2]).min(88);
                let frames = &mut out[first..];
                frames[channel] = sample as f32 * I16;
                let words = body.chunks_exact(4).skip(channel).step_by(self.channels);
                let codes = words
                    .flatten()
                    .flat_map(|byte| [byte & 15, byte >> 4])
                    .zip(frames.iter_mut().skip(self.channels + channel).step_by(self.channels));
                for (code, frame) in codes {
                    (sample, index) = ima_step(sample, index, code);
                    *frame = sample as f32 * I16;
                }
            }
        }
    }
}

/// One code: its low bits are how many half, quarter and eighth steps, its top bit the sign.
fn ima_step(sample: i32, index: i32, code: u8) -> (i32, i32) {
    let step = IMA_STEPS[index as usize];
    let mut change = step >> 3;
    for (bit, part) in [(4, step), (2, step >> 1), (1, step >> 2)] {
        if code & bit != 0 {
            change += part;
        }
    }
    let sample = if code & 8 != 0 { sample - change } else { sample + change };
    let index = index + IMA_STEP_CHANGES[usize::from(code & 7)];
    (sample.clamp(-32_768, 32_767), index.clamp(0, 88))
}

/// Microsoft ADPCM with blocks of one size.
pub(super) struct MsAdpcm {
    channels: usize,
    block_len: usize,
    /// Predictors as weights of the last two samples, in 1/256.
    coefficients: Vec<(i32, i32)>,
}

impl MsAdpcm {
    /// The seven predictors that every file starts its list with.
    pub(super) const STANDARD: [(i32, i32); 7] =
        [(256, 0), (512, -256), (0, 0), (192, 64), (240, 0), (460, -208), (392, -232)];

    /// `None` when not even the whole samples fit in a block, or for more channels than the format
    /// knows.
    pub(super) fn new(
        channels: usize,
        block_len: usize,
        coefficients: Vec<(i32, i32)>,
    ) -> Option<MsAdpcm> {
        let fits = (1..=2).contains(&channels) && block_len >= 7 * channels;
        fits.then_some(MsAdpcm { channels, block_len, coefficients })
    }

    pub(super) fn block_len(&self) -> usize {
        self.block_len
    }

    pub(super) fn frames_per_block(&self) -> usize {
        self.frames_in(self.block_len)
    }

    /// Frames in a block of `len` bytes: two in the head, then two codes a byte.
    pub(super) fn frames_in(&self, len: usize) -> usize {
        match len.checked_sub(7 * self.channels) {
            Some(body) => 2 + body * 2 / self.channels,
            None => 0,
        }
    }

    /// Appends the frames of these blocks; the last may be short. Refuses a predictor that the header
    /// does not list.
    pub(super) fn decode(&self, bytes: &[u8], out: &mut Vec<f32>) -> Result<(), String> {
        let channels = self.channels;
        for block in bytes.chunks(self.block_len) {
            if self.frames_in(block.len()) == 0 {
                return Ok(());
            }
            let (head, body) = block.split_at(7 * channels);
            let word = |group: usize, channel: usize| {
                let at = channels + 2 * (group * channels + channel);
                i32::from(i16::from_le_bytes([head[at], head[at + 1]]))
            };
            let mut states = Vec::with_capacity(channels);
            for (channel, predictor) in head[..channels].iter().enumerate() {
                let predictor = usize::from(*predictor);
                let coefficients = *self.coefficients.get(predictor).ok_or_else(|| {
                    let known = self.coefficients.len();
                    format!("a block asks for predictor {predictor} of {known}")
                })?;
                states.push(MsState {
                    coefficients,
                    step: word(0, channel),
                    last: word(1, channel),
                    before: word(2, channel),
                });
            }
            out.extend(states.iter().map(|state| state.before as f32 * I16));
            out.extend(states.iter().map(|state| state.last as f32 * I16));
            let codes = body.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            for (i, code) in codes.enumerate() {
                out.push(states[i % channels].next(code) as f32 * I16);
            }
        }
        Ok(())
    }
}

struct MsState {
    coefficients: (i32, i32),
    step: i32,
    last: i32,
    before: i32,
}

impl MsState {
    fn next(&mut self, code: u8) -> i32 {
        // Shifted, not divided, as libsndfile and SoX do: it rounds down below zero.
        let (newer, older) = self.coefficients;
        let predicted = (self.last * newer).wrapping_add(self.before * older) >> 8;
        let signed = (i32::from(code) ^ 8) - 8;
        let sample = signed.saturating_mul(self.step).saturating_add(predicted);
        self.before = self.last;
        self.last = sample.clamp(-32_768, 32_767);
        let step = self.step.saturating_mul(MS_STEP_FACTORS[usize::from(code)]) / 256;
        self.step = step.clamp(16, 1 << 20);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::tests::tone;

    fn samples(hz: f64, len: usize) -> Vec<i32> {
        tone(hz, 16_000, len).iter().map(|x| (x * 32_767.0) as i32).collect()
    }

    /// Codes each sample with the nibble whose decoding comes nearest.
    fn nearest(target: i32, decode: impl Fn(u8) -> i32) -> u8 {
        (0..16).min_by_key(|&code| (decode(code) - target).abs()).unwrap()
    }

    /// Root mean square of the error over that of the signal.
    fn relative_error(got: &[f32], want: &[i32]) -> f64 {
        let energy = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
        let want: Vec<f64> = want.iter().map(|&x| f64::from(x) / 32_768.0).collect();
        let error = energy(&mut got.iter().zip(&want).map(|(a, b)| f64::from(*a) - b));
        (error / energy(&mut want.iter().copied())).sqrt()
    }

    #[test]
    fn ima_blocks_of_two_channels_decode_to_their_signals() {
        let (left, right) = (samples(300.0, 1_001), samples(700.0, 1_001));
        let codec = ImaAdpcm::new(2, 8 + 8 * 125).unwrap();
        assert_eq!(codec.frames_per_block(), 1_001);
        let mut block = Vec::new();
        let mut codes = Vec::new();
        for signal in [&left, &right] {
            let (mut sample, mut index) = (signal[0], 40);
            block.extend((sample as i16).to_le_bytes());
            block.extend([index as u8, 0]);
            let mut nibbles = Vec::new();
            for &target in &signal[1..] {
                let code = nearest(target, |code| ima_step(sample, index, code).0);
                (sample, index) = ima_step(sample, index, code);
                nibbles.push(code);
            }
            codes.push(nibbles);
        }
        for start in (0..1_000).step_by(8) {
            for nibbles in &codes {
                block.extend(nibbles[start..start + 8].chunks(2).map(|n| n[0] | n[1] << 4));
            }
        }
        let mut got = Vec::new();
        codec.decode(&block, &mut got);
        assert_eq!(got.len(), 2 * 1_001);
        for (channel, signal) in [left, right].iter().enumerate() {
            let got: Vec<f32> = got.iter().copied().skip(channel).step_by(2).collect();
            assert!(relative_error(&got, signal) < 0.06);
        }
    }

    #[test]
    fn ms_blocks_decode_to_their_signal() {
        let signal = samples(300.0, 1_002);
        let codec = MsAdpcm::new(1, 7 + 500, MsAdpcm::STANDARD.to_vec()).unwrap();
        assert_eq!(codec.frames_per_block(), 1_002);
        let start = || MsState {
            coefficients: MsAdpcm::STANDARD[1],
            step: 200,
            last: signal[1],
            before: signal[0],
        };
        let mut state = start();
        let mut block = vec![1];
        for word in [state.step, state.last, state.before] {
            block.extend((word as i16).to_le_bytes());
        }
        let mut codes = Vec::new();
        for &target in &signal[2..] {
            let code = nearest(target, |code| MsState { ..state }.next(code));
            state.next(code);
            codes.push(code);
        }
        block.extend(codes.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
        let mut got = Vec::new();
        codec.decode(&block, &mut got).unwrap();
        assert!(relative_error(&got, &signal) < 0.03);
        block[0] = 7;
        assert!(codec.decode(&block, &mut got).unwrap_err().contains("predictor 7 of 7"));
    }

    #[test]
    fn blocks_of_any_length_and_content_decode_to_as_many_frames_as_promised() {
        for channels in 1..=2 {
            for block_len in 0..80 {
                let bytes: Vec<u8> = (0..200).map(|i: u32| (i * 157 % 251) as u8).collect();
                if let Some(codec) = ImaAdpcm::new(channels, block_len) {
                    let mut out = Vec::new();
                    codec.decode(&bytes[..block_len], &mut out);
                    assert_eq!(out.len(), codec.frames_per_block() * channels);
                }
                let any = vec![(i32::from(i16::MAX), i32::from(i16::MIN)); 256];
                if let Some(codec) = MsAdpcm::new(channels, block_len, any) {
                    let mut out = Vec::new();
                    codec.decode(&bytes[..block_len], &mut out).unwrap();
                    assert_eq!(out.len() / channels, codec.frames_per_block());
                    assert!(out.iter().all(|x| x.abs() <= 1.0));
                }
            }
        }
    }
}
