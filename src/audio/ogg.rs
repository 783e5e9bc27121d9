//! What the end of an Ogg file says (RFC 3533, section 6): whether the stream is whole, and where its last
//! page starts, which a seek must not land on.

use super::AudioError;
use super::source::Source;

/// The longest an Ogg page can be (27 + 255 + 255 * 255 bytes).
const MAX_PAGE_LEN: u64 = 65_307;

/// The last page.
pub(super) struct OggEnd {
    /// Where it starts, as a granule position, when the page before was found.
    pub last_page_granule: Option<u64>,
}

/// Finds the last page, which must be whole and carry the end-of-stream flag.
pub(super) fn find_end(source: &mut Source) -> Result<OggEnd, AudioError> {
    let tail_start = source.len().saturating_sub(2 * MAX_PAGE_LEN);
    let tail = source.bytes_at(tail_start, 2 * MAX_PAGE_LEN as usize)?;
    // The capture pattern may also occur inside a page: the last one that parses decides.
    let captures = |end: usize| {
        let windows = tail[..end].windows(4).enumerate().rev();
        windows.filter(|(_, window)| *window == b"OggS").map(|(at, _)| at)
    };
    let whole = captures(tail.len()).filter(|at| page_len(&tail[*at..]).is_some());
    let Some(at) = whole.into_iter().find(|at| tail[at + 5] & 4 != 0) else {
        return Err(AudioError::Truncated {
            path: source.path().into(),
            promised: "a last page marked as the end of the stream".into(),
            found: format!("{} bytes without one", source.len()),
        });
    };
    let serial = &tail[at + 14..at + 18];
    // A page of the same stream that ends where the last one starts, with a position of its own.
    let before = captures(at).find(|before| {
        let page = &tail[*before..];
        page_len(page).is_some() && &page[14..18] == serial && granule(page) != u64::MAX
    });
    Ok(OggEnd { last_page_granule: before.map(|before| granule(&tail[before..])) })
}

/// The length of the page that starts here, if it is whole.
fn page_len(bytes: &[u8]) -> Option<usize> {
    let num_segments = usize::from(*bytes.get(26)?);
    let lacing = bytes.get(27..27 + num_segments)?;
    let len = 27 + num_segments + lacing.iter().map(|&n| usize::from(n)).sum::<usize>();
    (bytes[4] == 0 && len <= bytes.len()).then_some(len)
}

/// The granule position of a page's end; all ones when no packet ends on it.
fn granule(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[6..14].try_into().expect("eight bytes"))
}
