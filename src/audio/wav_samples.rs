//! The samples of a WAV file that hound decodes: little-endian integers of 8 to 32 bits and 32-bit floats.
//! It reads one block after another, each under a header that it wrote itself, with the length that is
//! there: what the file's own header says, and where it lies, is the matter of `wav`.

use hound::{Error, SampleFormat, WavReader, WavSpec};

use super::pcm::{self, Kind};

/// A format that hound decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WavSamples {
    spec: WavSpec,
}

impl WavSamples {
    /// `None` for a format that hound does not decode.
    pub(super) fn new(format: pcm::SampleFormat) -> Option<WavSamples> {
        let sample_format = match (format.kind, format.num_bytes) {
            _ if format.big_endian => return None,
            (Kind::Unsigned, 1) | (Kind::Signed, 2..=4) => SampleFormat::Int,
            (Kind::Float, 4) => SampleFormat::Float,
            _ => return None,
        };
        let bits_per_sample = 8 * format.num_bytes as u16;
        // Frames are taken apart later, and no sample depends on its rate.
        let spec = WavSpec { channels: 1, sample_rate: 1, bits_per_sample, sample_format };
        Some(WavSamples { spec })
    }

    pub(super) fn num_bytes(self) -> usize {
        usize::from(self.spec.bits_per_sample / 8)
    }

    /// Appends the whole samples of `bytes`, as numbers in [-1, 1).
    pub(super) fn decode(self, bytes: &[u8], out: &mut Vec<f32>) -> Result<(), Error> {
        let bytes = &bytes[..bytes.len() / self.num_bytes() * self.num_bytes()];
        let mut file = self.spec.into_header_for_infinite_file();
        file.truncate(file.len() - 4);
        file.extend((bytes.len() as u32).to_le_bytes());
        file.extend_from_slice(bytes);
        let mut reader = WavReader::new(&file[..])?;
        out.reserve(bytes.len() / self.num_bytes());
        match self.spec.sample_format {
            SampleFormat::Float => {
                for sample in reader.samples::<f32>() {
                    out.push(sample?);
                }
            }
            SampleFormat::Int => {
                let scale = 1.0 / (1_u32 << (self.spec.bits_per_sample - 1)) as f32;
                for sample in reader.samples::<i32>() {
                    out.push(sample? as f32 * scale);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    /// The loops that read the other containers are the twin.
    #[test]
    fn hound_and_the_own_loops_give_the_same_bits() {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(11);
        let mut bytes = vec![0_u8; 1 << 16];
        random.fill(&mut bytes[..]);
        // Runs that give each width its smallest and its largest value, and NaN to the floats.
        for (i, byte) in bytes[..6_000].iter_mut().enumerate() {
            *byte = [0, 0x80, 0xff, 0x7f][i / 7 % 4];
        }
        let kinds = [Kind::Signed, Kind::Unsigned, Kind::Float, Kind::MuLaw, Kind::ALaw];
        let mut num_formats = 0;
        for (kind, num_bytes) in kinds.into_iter().flat_map(|kind| (1..=8).map(move |n| (kind, n)))
        {
            let of_order = |big_endian| pcm::SampleFormat::new(kind, num_bytes, big_endian);
            assert_eq!(of_order(true).and_then(WavSamples::new), None);
            let Some(twin) = of_order(false) else {
                continue;
            };
            let Some(by_hound) = WavSamples::new(twin) else {
                continue;
            };
            num_formats += 1;
            assert_eq!(by_hound.num_bytes(), num_bytes);
            for len in [0, 1, 2, 3, 4, 5, 4_799, bytes.len()] {
                let (mut got, mut want) = (vec![0.5], vec![0.5]);
                by_hound.decode(&bytes[..len], &mut got).unwrap();
                twin.decode(&bytes[..len], &mut want);
                assert_eq!(got.len(), 1 + len / num_bytes, "{twin:?}");
                let same = got.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same && got.len() == want.len(), "{twin:?}, {len} bytes");
            }
        }
        assert_eq!(num_formats, 5);
    }
}
