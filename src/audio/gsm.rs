//! GSM 06.10 full rate as WAV packs it: two frames of 160 samples in 65 bytes (ETSI EN 300 961). Fixed
//! point throughout, so that the result is the same on every machine. Each frame is predicted from those
//! before, so decoding starts at the beginning.

/// Bits of the eight reflection coefficients.
const LAR_BITS: [u32; 8] = [6, 6, 5, 5, 4, 4, 3, 3];
/// Their inverse quantiser (table 4.1): offset, smallest code, reciprocal slope.
const LAR_OFFSETS: [i32; 8] = [0, 0, 2_048, -2_560, 94, -1_792, -341, -1_144];
const LAR_MINIMA: [i32; 8] = [-32, -32, -16, -16, -8, -8, -4, -4];
const LAR_SLOPES: [i32; 8] = [13_107, 13_107, 13_107, 13_107, 19_223, 17_476, 31_454, 29_708];
/// Gains of the long-term predictor (table 4.3b).
const LONG_TERM_GAINS: [i32; 4] = [3_277, 11_469, 21_299, 32_767];
/// Normalised steps of the pulses (table 4.6).
const PULSE_STEPS: [i32; 8] = [18_431, 20_479, 22_527, 24_575, 26_623, 28_671, 30_719, 32_767];

const SUBFRAME_LEN: usize = 40;
const MAX_LAG: usize = 120;

/// Decoder state between blocks.
pub(super) struct Gsm {
    /// The excitation of the last 120 samples, then room for a subframe.
    excitation: [i32; MAX_LAG + SUBFRAME_LEN],
    lag: usize,
    log_area_ratios: [i32; 8],
    lattice: [i32; 9],
    deemphasised: i32,
}

impl Gsm {
    pub(super) const BLOCK_LEN: usize = 65;
    pub(super) const FRAMES_PER_BLOCK: usize = 320;

    pub(super) fn new() -> Gsm {
        Gsm {
            excitation: [0; MAX_LAG + SUBFRAME_LEN],
            lag: 40,
            log_area_ratios: [0; 8],
            lattice: [0; 9],
            deemphasised: 0,
        }
    }

    /// Appends the samples of the whole blocks in `bytes`.
    pub(super) fn decode(&mut self, bytes: &[u8], out: &mut Vec<f32>) {
        for block in bytes.chunks_exact(Gsm::BLOCK_LEN) {
            let mut bits = Bits { bytes: block, at: 0 };
            for _ in 0..2 {
                self.decode_frame(&mut bits, out);
            }
        }
    }

    fn decode_frame(&mut self, bits: &mut Bits, out: &mut Vec<f32>) {
        let mut ratios = [0; 8];
        for (i, ratio) in ratios.iter_mut().enumerate() {
            let code = bits.take(LAR_BITS[i]) + LAR_MINIMA[i];
            let scaled = multiply(LAR_SLOPES[i], clamp((code << 10) - (LAR_OFFSETS[i] << 1)));
            *ratio = clamp(2 * scaled);
        }
        let mut residual = [0; 4 * SUBFRAME_LEN];
        for subframe in residual.chunks_exact_mut(SUBFRAME_LEN) {
            self.decode_excitation(bits, subframe);
        }
        // The coefficients glide from those of the last frame over its first 40 samples (5.3.2).
        let before = std::mem::replace(&mut self.log_area_ratios, ratios);
        let glide = |mix: fn(i32, i32) -> i32| -> [i32; 8] {
            std::array::from_fn(|i| reflection(mix(before[i], ratios[i])))
        };
        let stages = [
            (13, glide(|a, b| (a >> 2) + (b >> 2) + (a >> 1))),
            (14, glide(|a, b| (a >> 1) + (b >> 1))),
            (13, glide(|a, b| (a >> 2) + (b >> 2) + (b >> 1))),
            (120, glide(|_, b| b)),
        ];
        let mut residual = residual.iter();
        for (num_samples, reflections) in stages {
            for &excitation in residual.by_ref().take(num_samples) {
                let sample = self.synthesise(excitation, &reflections);
                self.deemphasised = clamp(sample + multiply(self.deemphasised, 28_180));
                // Doubled, and cut to 13 bits.
                let output = clamp(2 * self.deemphasised) & !7;
                out.push(output as f32 / 32_768.0);
            }
        }
    }

    /// Regular pulses plus the scaled excitation one lag ago (5.3.1, 5.3.2).
    fn decode_excitation(&mut self, bits: &mut Bits, out: &mut [i32]) {
        let lag = bits.take(7) as usize;
        let gain = LONG_TERM_GAINS[bits.take(2) as usize];
        let grid = bits.take(2) as usize;
        let (exponent, mantissa) = block_maximum(bits.take(6));
        if (SUBFRAME_LEN..=MAX_LAG).contains(&lag) {
            self.lag = lag;
        }
        let mut pulses = [0; SUBFRAME_LEN];
        let shift = 6 - exponent;
        let half = if shift > 0 { 1 << (shift - 1) } else { 0 };
        for i in 0..13 {
            let code = ((bits.take(3) << 1) - 7) << 12;
            let scaled = clamp(multiply(PULSE_STEPS[mantissa], code) + half) >> shift;
            // The last grid positions of a subframe exist for the first offsets only.
            if let Some(pulse) = pulses.get_mut(grid + 3 * i) {
                *pulse = scaled;
            }
        }
        for (i, pulse) in pulses.into_iter().enumerate() {
            let past = self.excitation[MAX_LAG + i - self.lag];
            self.excitation[MAX_LAG + i] = clamp(pulse + multiply(gain, past));
        }
        out.copy_from_slice(&self.excitation[MAX_LAG..]);
        self.excitation.copy_within(SUBFRAME_LEN.., 0);
    }

    /// The lattice filter of the vocal tract (5.3.4).
    fn synthesise(&mut self, excitation: i32, reflections: &[i32; 8]) -> i32 {
        let mut sample = excitation;
        for i in (0..8).rev() {
            sample = clamp(sample - multiply(reflections[i], self.lattice[i]));
            self.lattice[i + 1] = clamp(self.lattice[i] + multiply(reflections[i], sample));
        }
        self.lattice[0] = sample;
        sample
    }
}

/// The exponent and mantissa of a subframe's largest pulse (5.2.15).
fn block_maximum(code: i32) -> (i32, usize) {
    let mut exponent = if code > 15 { (code >> 3) - 1 } else { 0 };
    let mut mantissa = code - (exponent << 3);
    if mantissa == 0 {
        return (-4, 7);
    }
    while mantissa <= 7 {
        mantissa = mantissa << 1 | 1;
        exponent -= 1;
    }
    (exponent, (mantissa - 8) as usize)
}

/// The reflection coefficient of a log area ratio (5.3.3): three straight pieces.
fn reflection(ratio: i32) -> i32 {
    let size = ratio.abs().min(32_767);
    let value = match size {
        0..11_059 => size << 1,
        11_059..20_070 => size + 11_059,
        _ => clamp((size >> 2) + 26_112),
    };
    if ratio < 0 { -value } else { value }
}

/// A rounded product of two fractions in 16 bits.
fn multiply(a: i32, b: i32) -> i32 {
    if a == -32_768 && b == -32_768 { 32_767 } else { (a * b + 16_384) >> 15 }
}

fn clamp(x: i32) -> i32 {
    x.clamp(-32_768, 32_767)
}

/// Bits of a block, each byte's lowest first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, num_bits: u32) -> i32 {
        let mut value = 0;
        for i in 0..num_bits {
            let bit = self.bytes[self.at / 8] >> (self.at % 8) & 1;
            value |= i32::from(bit) << i;
            self.at += 1;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_to_its_last_bit_and_gives_320_samples_of_13_bits() {
        for fill in [0x00, 0x55, 0xaa, 0xff] {
            let mut gsm = Gsm::new();
            let mut out = Vec::new();
            gsm.decode(&[fill; 10 * Gsm::BLOCK_LEN + 64], &mut out);
            assert_eq!(out.len(), 10 * Gsm::FRAMES_PER_BLOCK);
            assert!(out.iter().all(|x| x.abs() <= 1.0 && (x * 4_096.0).fract() == 0.0));
        }
        let mut bits = Bits { bytes: &[0; Gsm::BLOCK_LEN], at: 0 };
        Gsm::new().decode_frame(&mut bits, &mut Vec::new());
        Gsm::new().decode_frame(&mut bits, &mut Vec::new());
        assert_eq!(bits.at, 8 * Gsm::BLOCK_LEN);
    }

    #[test]
    fn block_maxima_round_trip_through_their_quantiser() {
        // Codes 0 to 15 step by 32; above, the step doubles with every eight codes.
        for code in 0..64 {
            let (exponent, mantissa) = block_maximum(code);
            let value = f64::from(mantissa as i32 + 8) * 2_f64.powi(exponent);
            let want = if code < 16 {
                f64::from(code)
            } else {
                f64::from(8 + code % 8) * 2_f64.powi(code / 8 - 1)
            };
            let rounded_up = (value - want) / 2_f64.powi(exponent.max(0));
            assert!((0.0..1.0).contains(&rounded_up), "{code}: {value} for {want}");
        }
    }
}
