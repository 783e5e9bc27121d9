//! Damage for the fuzzer: seeded, so that a case is its number. Headers get most of it, since that is
//! where sizes and counts lie.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Numbers that break arithmetic.
const ODD_NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    7,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff0,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// Case `number`: one of the files with one to six injuries, and a generator for what else is drawn.
pub(crate) fn case(number: u64, files: &[(String, Vec<u8>)]) -> (&str, Vec<u8>, ChaCha8Rng) {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let (name, bytes) = &files[random.random_range(0..files.len())];
    let mut bytes = bytes.clone();
    for _ in 0..random.random_range(1..=6) {
        injure(&mut bytes, files, &mut random);
    }
    (name, bytes, random)
}

fn injure(bytes: &mut Vec<u8>, files: &[(String, Vec<u8>)], random: &mut ChaCha8Rng) {
    if bytes.is_empty() {
        return;
    }
    // Three in four near an end, where the headers and the indices are.
    let at = match random.random_range(0..8) {
        0..=3 => random.random_range(0..bytes.len().min(96)),
        4 => random.random_range(0..bytes.len().min(2_000)),
        5 => bytes.len() - 1 - random.random_range(0..bytes.len().min(600)),
        _ => random.random_range(0..bytes.len()),
    };
    let span = |random: &mut ChaCha8Rng| {
        let longest = bytes.len() - at;
        let short = random.random_bool(0.7);
        random.random_range(0..=if short { longest.min(64) } else { longest })
    };
    match random.random_range(0..12) {
        0 => bytes[at] ^= 1 << random.random_range(0..8),
        1 => bytes[at] = random.random(),
        2..=5 => {
            let number = ODD_NUMBERS[random.random_range(0..ODD_NUMBERS.len())];
            let width = [1, 2, 4, 8][random.random_range(0..4)];
            let little = number.to_le_bytes();
            let mut word = little[..width].to_vec();
            if random.random() {
                word.reverse();
            }
            for (to, from) in bytes[at..].iter_mut().zip(word) {
                *to = from;
            }
        }
        6 => bytes.truncate(at),
        7 => {
            let len = span(random);
            random.fill(&mut bytes[at..at + len]);
        }
        8 => {
            let len = span(random);
            bytes.drain(at..at + len);
        }
        9 => {
            let len = span(random);
            let copy = bytes[at..at + len].to_vec();
            let to = random.random_range(0..=bytes.len());
            bytes.splice(to..to, copy);
        }
        10 => {
            // The head of one file on the body of another.
            let other = &files[random.random_range(0..files.len())].1;
            let from = random.random_range(0..other.len());
            bytes.truncate(at);
            bytes.extend(&other[from..]);
        }
        _ => {
            let len = span(random);
            bytes[at..at + len].fill([0, 0xff][random.random_range(0..2)]);
        }
    }
}
