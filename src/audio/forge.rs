//! Recordings made from samples, byte by byte, for the tests and the fuzzer: every uncompressed container
//! and encoding, and FLAC with its samples stored as they are.

/// 16-bit samples of one or more channels, interleaved.
#[derive(Clone, Copy)]
pub(crate) struct Take<'a> {
    pub samples: &'a [i16],
    pub channels: u16,
    pub rate_hz: u32,
}

impl Take<'_> {
    fn num_frames(&self) -> u32 {
        (self.samples.len() / usize::from(self.channels)) as u32
    }

    /// Samples of `num_bytes` each: integers of that width, or floats.
    fn words(&self, num_bytes: usize, float: bool, big_endian: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for &sample in self.samples {
            let x = f64::from(sample) / 32_768.0;
            let mut word = match (float, num_bytes) {
                (true, 4) => (x as f32).to_le_bytes().to_vec(),
                (true, _) => x.to_le_bytes().to_vec(),
                (false, 1) => vec![(sample >> 8) as u8],
                (false, _) => {
                    let wide = i64::from(sample) << (8 * num_bytes - 16);
                    wide.to_le_bytes()[..num_bytes].to_vec()
                }
            };
            if big_endian {
                word.reverse();
            }
            out.extend(word);
        }
        out
    }
}

/// Any WAV format chunk.
pub(crate) fn fmt(tag: u16, take: Take, block_len: u16, bits: u16, extra: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(tag.to_le_bytes());
    out.extend(take.channels.to_le_bytes());
    out.extend(take.rate_hz.to_le_bytes());
    out.extend((take.rate_hz * u32::from(block_len)).to_le_bytes());
    out.extend(block_len.to_le_bytes());
    out.extend(bits.to_le_bytes());
    if !extra.is_empty() {
        out.extend((extra.len() as u16).to_le_bytes());
        out.extend(extra);
    }
    out
}

/// A RIFF file of these chunks, padded to even lengths, with the sizes that are given.
pub(crate) fn riff(chunks: &[(&[u8; 4], u32, &[u8])]) -> Vec<u8> {
    let mut out = b"RIFF\0\0\0\0WAVE".to_vec();
    for (id, len, bytes) in chunks {
        out.extend(*id);
        out.extend(len.to_le_bytes());
        out.extend(*bytes);
        out.extend(vec![0; bytes.len() % 2]);
    }
    let len = out.len() as u32 - 8;
    out[4..8].copy_from_slice(&len.to_le_bytes());
    out
}

fn plain_riff(fmt: &[u8], data: &[u8]) -> Vec<u8> {
    riff(&[(b"fmt ", fmt.len() as u32, fmt), (b"data", data.len() as u32, data)])
}

/// WAV with integers or floats of any width.
pub(crate) fn wav(take: Take, num_bytes: usize, float: bool) -> Vec<u8> {
    let mut data = take.words(num_bytes, float, false);
    if num_bytes == 1 {
        data.iter_mut().for_each(|byte| *byte ^= 0x80);
    }
    let block_len = take.channels * num_bytes as u16;
    let tag = if float { 3 } else { 1 };
    plain_riff(&fmt(tag, take, block_len, 8 * num_bytes as u16, &[]), &data)
}

/// WAV with the format's tag in a GUID.
pub(crate) fn wav_extensible(take: Take) -> Vec<u8> {
    let mut extra = vec![16, 0, 0, 0, 0, 0, 1, 0];
    extra.extend(b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71");
    let fmt = fmt(0xfffe, take, take.channels * 2, 16, &extra);
    plain_riff(&fmt, &take.words(2, false, false))
}

/// WAV whose samples are 8-bit codes of G.711, given as they are.
pub(crate) fn wav_law(take: Take, tag: u16, codes: &[u8]) -> Vec<u8> {
    plain_riff(&fmt(tag, take, take.channels, 8, &[0, 0]), codes)
}

/// Mono WAV with blocks of a block coder, and the number of frames that count.
pub(crate) fn wav_blocks(
    take: Take,
    tag: u16,
    block_len: u16,
    extra: &[u8],
    blocks: &[u8],
    num_frames: u32,
) -> Vec<u8> {
    let bits = if tag == 0x31 { 0 } else { 4 };
    let fmt = fmt(tag, take, block_len, bits, extra);
    riff(&[
        (b"fmt ", fmt.len() as u32, &fmt),
        (b"fact", 4, &num_frames.to_le_bytes()),
        (b"data", blocks.len() as u32, blocks),
    ])
}

/// Big-endian WAV.
pub(crate) fn rifx(take: Take) -> Vec<u8> {
    let data = take.words(2, false, true);
    let mut out = b"RIFX\0\0\0\0WAVEfmt \0\0\0\x10".to_vec();
    out.extend(1_u16.to_be_bytes());
    out.extend(take.channels.to_be_bytes());
    out.extend(take.rate_hz.to_be_bytes());
    out.extend((2 * take.rate_hz * u32::from(take.channels)).to_be_bytes());
    out.extend((2 * take.channels).to_be_bytes());
    out.extend(16_u16.to_be_bytes());
    out.extend(b"data");
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
    out
}

/// WAV whose length is written in 64 bits.
pub(crate) fn rf64(take: Take) -> Vec<u8> {
    let data = take.words(2, false, false);
    let mut long = 0_u64.to_le_bytes().to_vec();
    long.extend((data.len() as u64).to_le_bytes());
    long.extend(u64::from(take.num_frames()).to_le_bytes());
    long.extend([0; 4]);
    let fmt = fmt(1, take, 2 * take.channels, 16, &[]);
    let mut out = riff(&[
        (b"ds64", 28, &long),
        (b"fmt ", 16, &fmt),
        (b"data", u32::MAX, &data),
        (b"LIST", 4, b"abcd"),
    ]);
    out[..8].copy_from_slice(b"RF64\xff\xff\xff\xff");
    out
}

/// Sony Wave64.
pub(crate) fn wave64(take: Take) -> Vec<u8> {
    const TAIL: &[u8] = b"\xf3\xac\xd3\x11\x8c\xd1\0\xc0\x4f\x8e\xdb\x8a";
    let mut out = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\0\0".to_vec();
    out.extend([0; 8]);
    out.extend(b"wave");
    out.extend(TAIL);
    let fmt = fmt(1, take, 2 * take.channels, 16, &[]);
    let data = take.words(2, false, false);
    for (id, bytes) in [(b"fmt ", &fmt), (b"junk", &vec![7; 5]), (b"data", &data)] {
        out.extend(id);
        out.extend(TAIL);
        out.extend((bytes.len() as u64 + 24).to_le_bytes());
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(8), 0);
    }
    let len = out.len() as u64;
    out[16..24].copy_from_slice(&len.to_le_bytes());
    out
}

/// AIFF, or AIFF-C with a compression type: `sowt`, `fl32`, `fl64`.
pub(crate) fn aiff(take: Take, compression: Option<&[u8; 4]>) -> Vec<u8> {
    let (num_bytes, float, big_endian) = match compression {
        Some(b"sowt") => (2, false, false),
        Some(b"fl32") => (4, true, true),
        Some(b"fl64") => (8, true, true),
        _ => (2, false, true),
    };
    let data = take.words(num_bytes, float, big_endian);
    let mut common = take.channels.to_be_bytes().to_vec();
    common.extend(take.num_frames().to_be_bytes());
    common.extend((8 * num_bytes as u16).to_be_bytes());
    // The rate as a float of 80 bits.
    let shift = take.rate_hz.leading_zeros();
    common.extend((16_383 + 31 - shift as u16).to_be_bytes());
    common.extend((take.rate_hz << shift).to_be_bytes());
    common.extend([0; 4]);
    if let Some(name) = compression {
        common.extend(name);
        common.extend([0, 0]);
    }
    let mut out = b"FORM\0\0\0\0".to_vec();
    out.extend(if compression.is_some() { b"AIFC" } else { b"AIFF" });
    // The samples may come before their description.
    out.extend(b"SSND");
    out.extend((data.len() as u32 + 8).to_be_bytes());
    out.extend([0; 8]);
    out.extend(data);
    out.extend(b"COMM");
    out.extend((common.len() as u32).to_be_bytes());
    out.extend(common);
    let len = out.len() as u32 - 8;
    out[4..8].copy_from_slice(&len.to_be_bytes());
    out
}

/// Sun AU with 16-bit samples.
pub(crate) fn au(take: Take) -> Vec<u8> {
    let data = take.words(2, false, true);
    let mut out = b".snd".to_vec();
    let fields = [28, data.len() as u32, 3, take.rate_hz, u32::from(take.channels), 0];
    out.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
    out.extend(data);
    out
}

/// CAF with little-endian integers or big-endian floats.
pub(crate) fn caf(take: Take, float: bool) -> Vec<u8> {
    let (num_bytes, flags) = if float { (4, 1) } else { (2, 2_u32) };
    let data = take.words(num_bytes, float, float);
    let mut out = b"caff\0\x01\0\0desc".to_vec();
    out.extend(32_u64.to_be_bytes());
    out.extend(f64::from(take.rate_hz).to_be_bytes());
    out.extend(b"lpcm");
    let channels = u32::from(take.channels);
    let fields = [flags, num_bytes as u32 * channels, 1, channels, 8 * num_bytes as u32];
    out.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
    out.extend(b"free\0\0\0\0\0\0\0\x03abc");
    out.extend(b"data");
    out.extend((data.len() as u64 + 4).to_be_bytes());
    out.extend([0; 4]);
    out.extend(data);
    out
}

/// NIST SPHERE with PCM, high byte first or last.
pub(crate) fn sphere(take: Take, big_endian: bool) -> Vec<u8> {
    let order = if big_endian { "10" } else { "01" };
    let header = format!(
        "NIST_1A\n   1024\ndatabase_id -s5 forge\nchannel_count -i {}\nsample_count -i {}\n\
         sample_rate -i {}\nsample_n_bytes -i 2\nsample_byte_format -s2 {order}\n\
         sample_coding -s3 pcm\nend_head\n",
        take.channels,
        take.num_frames(),
        take.rate_hz
    );
    let mut out = header.into_bytes();
    out.resize(1_024, b' ');
    out.extend(take.words(2, false, big_endian));
    out
}

/// FLAC with frames of 1024 samples, each stored verbatim, and no checksum of the whole.
pub(crate) fn flac(take: Take) -> Vec<u8> {
    const BLOCK_LEN: usize = 1_024;
    let channels = usize::from(take.channels);
    let mut out = b"fLaC\x80\0\0\x22".to_vec();
    out.extend((BLOCK_LEN as u16).to_be_bytes().repeat(2));
    out.extend([0; 6]);
    let stream = u64::from(take.rate_hz) << 44
        | (u64::from(take.channels) - 1) << 41
        | 15 << 36
        | u64::from(take.num_frames());
    out.extend(stream.to_be_bytes());
    out.extend([0; 16]);
    for (number, block) in take.samples.chunks(BLOCK_LEN * channels).enumerate() {
        let start = out.len();
        let block_len = block.len() / channels;
        // Fixed block size, size in 16 bits at the end, rate and width from the head.
        out.extend([0xff, 0xf8, 0x70, ((channels as u8 - 1) << 4) | 0x08]);
        match number {
            0..0x80 => out.push(number as u8),
            0x80..0x800 => out.extend([0xc0 | (number >> 6) as u8, 0x80 | (number & 0x3f) as u8]),
            _ => out.extend([
                0xe0 | (number >> 12) as u8,
                0x80 | (number >> 6 & 0x3f) as u8,
                0x80 | (number & 0x3f) as u8,
            ]),
        }
        out.extend((block_len as u16 - 1).to_be_bytes());
        let crc = crc(&out[start..], 8, 0x07) as u8;
        out.push(crc);
        for channel in 0..channels {
            out.push(0x02);
            let samples = block.iter().skip(channel).step_by(channels);
            out.extend(samples.flat_map(|sample| sample.to_be_bytes()));
        }
        let crc = self::crc(&out[start..], 16, 0x8005) as u16;
        out.extend(crc.to_be_bytes());
    }
    out
}

fn crc(bytes: &[u8], width: u32, polynomial: u32) -> u32 {
    bytes.iter().fold(0, |crc, &byte| {
        let mut crc = crc ^ u32::from(byte) << (width - 8);
        for _ in 0..8 {
            let carry = crc >> (width - 1) & 1;
            crc = ((crc << 1) ^ (carry * polynomial)) & ((1 << width) - 1);
        }
        crc
    })
}

/// One of every kind, with its name.
pub(crate) fn every_kind(take: Take) -> Vec<(&'static str, Vec<u8>)> {
    let codes: Vec<u8> = take.samples.iter().map(|sample| (sample >> 7) as u8).collect();
    let mono = Take { channels: 1, ..take };
    let ima: Vec<u8> = codes.chunks(252).flat_map(|body| [&[0, 1, 30, 0], body].concat()).collect();
    let ms: Vec<u8> =
        codes.chunks(249).flat_map(|body| [&[1, 60, 0, 5, 0, 3, 0], body].concat()).collect();
    let gsm = &codes[..codes.len() / 65 * 65];
    vec![
        ("pcm8.wav", wav(take, 1, false)),
        ("pcm16.wav", wav(take, 2, false)),
        ("pcm24.wav", wav(take, 3, false)),
        ("pcm32.wav", wav(take, 4, false)),
        ("float32.wav", wav(take, 4, true)),
        ("float64.wav", wav(take, 8, true)),
        ("extensible.wav", wav_extensible(take)),
        ("mulaw.wav", wav_law(take, 7, &codes)),
        ("alaw.wav", wav_law(take, 6, &codes)),
        ("ima.wav", wav_blocks(mono, 0x11, 256, &[249, 1], &ima, 0)),
        ("ms.wav", wav_blocks(mono, 2, 256, &[244, 1, 0, 0], &ms, 0)),
        ("gsm.wav", wav_blocks(mono, 0x31, 65, &[64, 1], gsm, 0)),
        ("rifx.wav", rifx(take)),
        ("rf64.wav", rf64(take)),
        ("wave64.w64", wave64(take)),
        ("plain.aiff", aiff(take, None)),
        ("sowt.aifc", aiff(take, Some(b"sowt"))),
        ("fl32.aifc", aiff(take, Some(b"fl32"))),
        ("fl64.aifc", aiff(take, Some(b"fl64"))),
        ("plain.au", au(take)),
        ("pcm.caf", caf(take, false)),
        ("float.caf", caf(take, true)),
        ("big.sph", sphere(take, true)),
        ("little.sph", sphere(take, false)),
        ("verbatim.flac", flac(take)),
    ]
}
