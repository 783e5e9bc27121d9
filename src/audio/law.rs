//! G.711: eight bits of logarithmic amplitude from a telephone line (ITU-T G.711, 1988), as tables.

/// The value of each mu-law byte: 14 bits in steps of 1 / 8192.
pub(super) static MU_LAW: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        // All bits are sent inverted, so that silence is a line full of ones.
        let code = !(byte as u8);
        let (segment, step) = (code >> 4 & 7, code & 15);
        let magnitude = ((2 * step as i32 + 33) << segment) - 33;
        let value = if code & 0x80 != 0 { -magnitude } else { magnitude };
        table[byte] = value as f32 / 8_192.0;
        byte += 1;
    }
    table
};

/// The value of each A-law byte: 13 bits in steps of 1 / 4096.
pub(super) static A_LAW: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        // Every other bit is sent inverted.
        let code = byte as u8 ^ 0x55;
        let (segment, step) = (code >> 4 & 7, code & 15);
        let magnitude = match segment {
            0 => 2 * step as i32 + 1,
            _ => (2 * step as i32 + 33) << (segment - 1),
        };
        let value = if code & 0x80 != 0 { magnitude } else { -magnitude };
        table[byte] = value as f32 / 4_096.0;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The sixteen segments as the recommendation draws them: from each end point to the next, sixteen
    /// equal steps, each decoded to its middle.
    fn positive_values(ends: &[f64]) -> Vec<f64> {
        let steps = |pair: &[f64]| -> Vec<f64> {
            let width = (pair[1] - pair[0]) / 16.0;
            (0..16).map(|step| pair[0] + (f64::from(step) + 0.5) * width).collect()
        };
        ends.windows(2).flat_map(steps).collect()
    }

    #[test]
    fn mu_law_has_the_values_of_the_recommendation() {
        // Table 2a: end points of the segments; value 0 is a step of half width around zero.
        let ends = [-1.0, 31.0, 95.0, 223.0, 479.0, 991.0, 2_015.0, 4_063.0, 8_159.0];
        for (code, want) in positive_values(&ends).into_iter().enumerate() {
            for (sign, bit) in [(1.0, 0x80), (-1.0, 0)] {
                let byte = (!code as u8 & 0x7f) | bit;
                assert_eq!(
                    f64::from(MU_LAW[usize::from(byte)]),
                    sign * want / 8_192.0,
                    "{byte:#x}"
                );
            }
        }
    }

    #[test]
    fn a_law_has_the_values_of_the_recommendation() {
        // Table 1a: the first segment spans two.
        let ends = [0.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0];
        for (code, want) in positive_values(&ends).into_iter().enumerate() {
            for (sign, bit) in [(1.0, 0x80), (-1.0, 0)] {
                let byte = (code as u8 | bit) ^ 0x55;
                assert_eq!(f64::from(A_LAW[usize::from(byte)]), sign * want / 4_096.0, "{byte:#x}");
            }
        }
    }
}
