//! The chunks of IFF and its descendants: RIFF, RIFX, RF64, Sony Wave64 and AIFF. Only headers are read;
//! a chunk's length is what it claims, which the caller holds against what is there.

use super::AudioError;
use super::source::Source;

/// Real files have a dozen; a file of nothing but headers would cost two calls each.
const MAX_CHUNKS: usize = 10_000;

/// How a family of containers writes its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    /// Four letters and a little-endian size, padded to even length.
    Little,
    /// The same, big-endian.
    Big,
    /// A GUID and a 64-bit size that includes this header, padded to multiples of 8.
    Wave64,
}

/// A chunk's name, where its content starts and how long it claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub id: [u8; 4],
    pub start: u64,
    pub len: u64,
}

/// Walks the chunks from a position on.
pub(super) struct Chunks {
    flavour: Flavour,
    format: &'static str,
    at: u64,
    num_seen: usize,
}

impl Chunks {
    pub(super) fn new(flavour: Flavour, format: &'static str, at: u64) -> Chunks {
        Chunks { flavour, format, at, num_seen: 0 }
    }

    /// The next chunk, `None` where no whole header is left.
    pub(super) fn next(&mut self, source: &mut Source) -> Result<Option<Chunk>, AudioError> {
        let (head_len, align) = match self.flavour {
            Flavour::Little | Flavour::Big => (8, 2),
            Flavour::Wave64 => (24, 8),
        };
        self.num_seen += 1;
        if self.num_seen > MAX_CHUNKS {
            let reason = format!("it has more than {MAX_CHUNKS} chunks");
            return Err(source.malformed(self.format, reason));
        }
        let head = source.bytes_at(self.at, head_len)?;
        if head.len() < head_len {
            return Ok(None);
        }
        let id = [head[0], head[1], head[2], head[3]];
        let size = [head[4], head[5], head[6], head[7]];
        let len = match self.flavour {
            Flavour::Little => u64::from(u32::from_le_bytes(size)),
            Flavour::Big => u64::from(u32::from_be_bytes(size)),
            Flavour::Wave64 => {
                let bytes = head[16..24].try_into().expect("eight bytes");
                u64::from_le_bytes(bytes).saturating_sub(head_len as u64)
            }
        };
        let start = self.at + head_len as u64;
        self.at = start.saturating_add(len).checked_next_multiple_of(align).unwrap_or(u64::MAX);
        Ok(Some(Chunk { id, start, len }))
    }
}
