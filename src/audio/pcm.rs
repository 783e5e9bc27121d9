//! Plain samples of any width, sign and byte order, and G.711, as numbers in [-1, 1). The usual formats
//! have their own loops, which the compiler turns into vector code; the rest go byte by byte. Most WAV
//! files do not come here: see `wav_samples`.

use super::law::{A_LAW, MU_LAW};

/// What the bytes of a sample mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Signed,
    Unsigned,
    Float,
    MuLaw,
    ALaw,
}

/// The format of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleFormat {
    pub kind: Kind,
    pub num_bytes: usize,
    pub big_endian: bool,
}

impl SampleFormat {
    /// `None` for a combination that does not exist: integers have one to eight bytes, floats four or
    /// eight, G.711 one.
    pub(super) fn new(kind: Kind, num_bytes: usize, big_endian: bool) -> Option<SampleFormat> {
        let exists = match kind {
            Kind::Signed | Kind::Unsigned => (1..=8).contains(&num_bytes),
            Kind::Float => matches!(num_bytes, 4 | 8),
            Kind::MuLaw | Kind::ALaw => num_bytes == 1,
        };
        exists.then_some(SampleFormat { kind, num_bytes, big_endian })
    }

    /// Appends the whole samples of `bytes`.
    pub(super) fn decode(self, bytes: &[u8], out: &mut Vec<f32>) {
        const I16: f32 = 1.0 / 32_768.0;
        match (self.kind, self.num_bytes, self.big_endian) {
            (Kind::MuLaw, ..) => out.extend(bytes.iter().map(|&byte| MU_LAW[usize::from(byte)])),
            (Kind::ALaw, ..) => out.extend(bytes.iter().map(|&byte| A_LAW[usize::from(byte)])),
            (Kind::Signed, 2, false) => {
                out.extend(words(bytes).map(|word| f32::from(i16::from_le_bytes(word)) * I16));
            }
            (Kind::Signed, 2, true) => {
                out.extend(words(bytes).map(|word| f32::from(i16::from_be_bytes(word)) * I16));
            }
            (Kind::Float, 4, false) => out.extend(words(bytes).map(f32::from_le_bytes)),
            (Kind::Float, 4, true) => out.extend(words(bytes).map(f32::from_be_bytes)),
            (Kind::Float, _, false) => {
                out.extend(words(bytes).map(|word| f64::from_le_bytes(word) as f32));
            }
            (Kind::Float, _, true) => {
                out.extend(words(bytes).map(|word| f64::from_be_bytes(word) as f32));
            }
            (Kind::Signed | Kind::Unsigned, ..) => self.decode_integers(bytes, out),
        }
    }

    /// Moves each integer to the top of 64 bits, whatever its width.
    fn decode_integers(self, bytes: &[u8], out: &mut Vec<f32>) {
        const SCALE: f64 = 1.0 / (1_u64 << 63) as f64;
        let flip = if self.kind == Kind::Unsigned { 1 << 63 } else { 0 };
        out.extend(bytes.chunks_exact(self.num_bytes).map(|sample| {
            let mut word = [0; 8];
            if self.big_endian {
                word[..sample.len()].copy_from_slice(sample);
                word.reverse();
            } else {
                word[8 - sample.len()..].copy_from_slice(sample);
            }
            ((u64::from_le_bytes(word) ^ flip) as i64 as f64 * SCALE) as f32
        }));
    }
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    /// The value of one sample by arithmetic on its bytes alone.
    fn slow(format: SampleFormat, sample: &[u8]) -> f64 {
        let mut little = sample.to_vec();
        if format.big_endian {
            little.reverse();
        }
        let unsigned = little.iter().rev().fold(0_i128, |sum, &byte| sum * 256 + i128::from(byte));
        let range = 1_i128 << (8 * little.len());
        let value = match format.kind {
            Kind::Unsigned => unsigned - range / 2,
            Kind::Signed if unsigned >= range / 2 => unsigned - range,
            Kind::Signed => unsigned,
            Kind::Float if little.len() == 4 => {
                return f64::from(f32::from_bits(unsigned as u32));
            }
            Kind::Float => return f64::from_bits(unsigned as u64),
            Kind::MuLaw | Kind::ALaw => unreachable!("the tables have their own twin"),
        };
        value as f64 / (range / 2) as f64
    }

    #[test]
    fn every_format_equals_its_slow_twin_on_random_bytes() {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        let mut bytes = vec![0_u8; 8 * 1_000 + 5];
        random.fill(&mut bytes[..]);
        for kind in [Kind::Signed, Kind::Unsigned, Kind::Float] {
            for num_bytes in 1..=8 {
                for big_endian in [false, true] {
                    let Some(format) = SampleFormat::new(kind, num_bytes, big_endian) else {
                        continue;
                    };
                    let mut got = Vec::new();
                    format.decode(&bytes, &mut got);
                    assert_eq!(got.len(), bytes.len() / num_bytes);
                    for (got, sample) in got.iter().zip(bytes.chunks(num_bytes)) {
                        let want = slow(format, sample);
                        let equal = f64::from(*got) == f64::from(want as f32);
                        assert!(equal || want.is_nan() && got.is_nan(), "{format:?}: {sample:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn widths_that_do_not_exist_are_refused() {
        for (kind, num_bytes) in
            [(Kind::Signed, 0), (Kind::Unsigned, 9), (Kind::Float, 2), (Kind::ALaw, 2)]
        {
            assert_eq!(SampleFormat::new(kind, num_bytes, false), None);
        }
    }
}
