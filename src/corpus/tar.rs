//! The members of an uncompressed tar file, found by its headers alone: names, places and lengths, without
//! reading what lies between. POSIX ustar with pax and GNU long names; sparse members, links and
//! directories are no recordings and are passed over. A header whose checksum is wrong and a member that
//! reaches past the end are errors. POSIX.1-2017, pax, "ustar Interchange Format".

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::Span;

const BLOCK_LEN: u64 = 512;

/// Longer pax headers and names are lies.
const MAX_EXTENDED_LEN: u64 = 1 << 20;

/// A regular file in a tar file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub name: String,
    pub span: Span,
}

/// Whether these first 512 bytes are a header.
pub(super) fn is_header(block: &[u8]) -> bool {
    block.len() >= BLOCK_LEN as usize && block[0] != 0 && checksum_holds(block)
}

/// The members, in order. `is_wanted` chooses by name; what it refuses costs no memory.
pub(super) fn index(path: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<Member>> {
    let file = File::open(path)?;
    let file_len = file.metadata()?.len();
    // Small members follow each other within a buffer; seek_relative keeps it.
    let mut reader = BufReader::with_capacity(1 << 15, file);
    let broken = |at: u64, what: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("at byte {at} {what}"))
    };
    let mut members = Vec::new();
    let (mut long_name, mut pax_len): (Option<String>, Option<u64>) = (None, None);
    let mut at = 0;
    loop {
        let mut header = [0; BLOCK_LEN as usize];
        if file_len - at < BLOCK_LEN {
            // Even the last member is followed by empty blocks.
            return Err(broken(
                at,
                "it ends without the mark of its end: the copy is cut short".into(),
            ));
        }
        reader.read_exact(&mut header)?;
        let data_at = at + BLOCK_LEN;
        if header.iter().all(|byte| *byte == 0) {
            return Ok(members);
        }
        if !checksum_holds(&header) {
            return Err(broken(at, "a tar header has a wrong checksum".into()));
        }
        let number = number(&header[124..136]);
        let stated = number.ok_or_else(|| broken(at, "a tar header has no length".into()))?;
        let kind = header[156];
        let is_extension = matches!(kind, b'x' | b'g' | b'L' | b'K');
        let len = if is_extension { stated } else { pax_len.take().unwrap_or(stated) };
        // Links and directories state lengths that no data follows.
        let stored = if matches!(kind, b'1'..=b'6') { 0 } else { len };
        let end = data_at.checked_add(stored).filter(|end| *end <= file_len).ok_or_else(|| {
            broken(at, format!("a member of {len} bytes reaches past the end of the file: the copy is cut short"))
        })?;
        let next = end.next_multiple_of(BLOCK_LEN).min(file_len);
        if is_extension {
            if stored > MAX_EXTENDED_LEN {
                return Err(broken(at, format!("a name has {stored} bytes")));
            }
            let mut data = vec![0; stored as usize];
            reader.read_exact(&mut data)?;
            match kind {
                b'L' => long_name = Some(text(&data)),
                b'x' => {
                    let (name, len) = pax(&data);
                    long_name = name.or(long_name);
                    pax_len = len;
                }
                _ => {}
            }
            reader.seek_relative((next - data_at - stored) as i64)?;
        } else {
            let name = long_name.take().unwrap_or_else(|| ustar_name(&header));
            if matches!(kind, b'0' | 0 | b'7') && is_wanted(&name) {
                members.push(Member { name, span: Span { start: data_at, len } });
            }
            match i64::try_from(next - data_at) {
                Ok(by) => reader.seek_relative(by)?,
                Err(_) => drop(reader.seek(SeekFrom::Start(next))?),
            }
        }
        at = next;
    }
}

/// The sum of all bytes, those of the checksum itself taken as blanks. Old tools summed signed bytes.
fn checksum_holds(header: &[u8]) -> bool {
    let Some(stated) = number(&header[148..156]) else { return false };
    let bytes = header[..BLOCK_LEN as usize].iter().enumerate();
    let (mut unsigned, mut signed) = (0_u64, 0_i64);
    for (at, &byte) in bytes {
        let byte = if (148..156).contains(&at) { b' ' } else { byte };
        unsigned += u64::from(byte);
        signed += i64::from(byte as i8);
    }
    stated == unsigned || i64::try_from(stated) == Ok(signed)
}

/// Octal digits, or big-endian binary behind a first byte of 0x80 (GNU).
fn number(field: &[u8]) -> Option<u64> {
    if field[0] == 0x80 {
        let (high, low) = field[1..].split_at(field.len() - 9);
        return high
            .iter()
            .all(|byte| *byte == 0)
            .then(|| low.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)));
    }
    let text = std::str::from_utf8(field).ok()?;
    let text = text.trim_matches(|c| c == ' ' || c == '\0');
    u64::from_str_radix(text, 8).ok()
}

/// Up to the first NUL. Names that are not UTF-8 match no recording's extension in a useful way, but are
/// no reason to refuse the rest.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn ustar_name(header: &[u8]) -> String {
    let name = text(&header[..100]);
    let prefix = text(&header[345..500]);
    // GNU tar's own format ("ustar  \0") has times where POSIX has the prefix.
    if &header[257..263] == b"ustar\0" && !prefix.is_empty() {
        format!("{prefix}/{name}")
    } else {
        name
    }
}

/// `path` and `size` of the records `LEN KEY=VALUE\n`.
fn pax(mut data: &[u8]) -> (Option<String>, Option<u64>) {
    let (mut name, mut size) = (None, None);
    while let Some(blank) = data.iter().position(|byte| *byte == b' ') {
        let len = std::str::from_utf8(&data[..blank]).ok().and_then(|len| len.parse().ok());
        let Some(record) = len.and_then(|len: usize| data.get(blank + 1..len)) else { break };
        let record = record.strip_suffix(b"\n").unwrap_or(record);
        if let Some(value) = record.strip_prefix(b"path=") {
            name = Some(String::from_utf8_lossy(value).into_owned());
        } else if let Some(value) = record.strip_prefix(b"size=") {
            size = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
        }
        data = &data[len.unwrap_or(data.len())..];
    }
    (name, size)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::Tree;
    use super::*;

    fn header(name: &[u8], len: usize, kind: u8) -> Vec<u8> {
        let mut header = vec![0; 512];
        header[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{len:011o}\0").as_bytes());
        header[156] = kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        seal(&mut header);
        header
    }

    fn seal(header: &mut [u8]) {
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }

    fn member(name: &[u8], data: &[u8], kind: u8) -> Vec<u8> {
        let mut bytes = header(name, data.len(), kind);
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    /// A tar file of regular files.
    pub(crate) fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            members.iter().flat_map(|(name, data)| member(name.as_bytes(), data, b'0')).collect();
        bytes.resize(bytes.len() + 1_024, 0);
        bytes
    }

    fn indexed(bytes: &[u8]) -> io::Result<Vec<(String, Vec<u8>)>> {
        let tree = Tree::new(&[]);
        let path = tree.write("a.tar", bytes);
        let mut file = File::open(&path)?;
        let members = index(&path, |name| !name.ends_with(".skip"))?;
        members
            .into_iter()
            .map(|member| Ok((member.name, member.span.read_from(&mut file)?)))
            .collect()
    }

    #[test]
    fn members_are_found_whatever_way_their_names_are_written() {
        let long = format!("{}/{}.wav", "d".repeat(120), "n".repeat(130));
        let pax = |name: &str| {
            let body = format!(" path={name}\n");
            let len =
                (body.len() + 1..).find(|len| len.to_string().len() + body.len() == *len).unwrap();
            format!("{len}{body}")
        };
        let mut with_prefix = header(b"c.wav", 3, b'0');
        with_prefix[345..348].copy_from_slice(b"dir");
        seal(&mut with_prefix);
        with_prefix.extend(b"ccc");
        with_prefix.resize(1_024, 0);
        let bytes = [
            member(b"a.wav", b"aaaa", b'0'),
            member(b"dir/", b"", b'5'),
            member(b"link", b"", b'2'),
            member(b"big.skip", &[1; 70_000], b'0'),
            member(b"empty.txt", b"", 0),
            with_prefix,
            member(b"././@LongLink", format!("{long}\0").as_bytes(), b'L'),
            member(&long.as_bytes()[..100], b"long", b'0'),
            member(b"pax", pax("p\u{e9}x.wav").as_bytes(), b'x'),
            member(b"short", b"pax", b'0'),
            member(b"after.wav", b"z", b'0'),
            vec![0; 1_024],
        ]
        .concat();
        let want: Vec<(String, Vec<u8>)> = [
            ("a.wav", b"aaaa".as_slice()),
            ("empty.txt", b""),
            ("dir/c.wav", b"ccc"),
            (&long, b"long"),
            ("p\u{e9}x.wav", b"pax"),
            ("after.wav", b"z"),
        ]
        .map(|(name, data)| (name.to_owned(), data.to_vec()))
        .into();
        assert_eq!(indexed(&bytes).unwrap(), want);
        assert_eq!(
            indexed(&bytes[..bytes.len() - 512]).unwrap(),
            want,
            "one empty block is enough"
        );
    }

    #[test]
    fn what_the_systems_tar_writes_is_read() {
        let tree = Tree::new(&[("in/one.txt", "one"), ("in/sub/two.txt", "two")]);
        for format in ["ustar", "gnu", "pax", "v7"] {
            let status = std::process::Command::new("tar")
                .args(["--format", format, "-cf", "out.tar", "-C", "in", "one.txt", "sub"])
                .current_dir(tree.path(""))
                .status()
                .unwrap();
            assert!(status.success(), "{format}");
            let bytes = std::fs::read(tree.path("out.tar")).unwrap();
            let want = [("one.txt", b"one"), ("sub/two.txt", b"two")];
            assert_eq!(
                indexed(&bytes).unwrap(),
                want.map(|(name, data)| (name.into(), data.to_vec()))
            );
        }
    }

    #[test]
    fn a_cut_or_damaged_archive_is_refused_with_the_byte() {
        let bytes = archive(&[("a.wav", &[5; 700]), ("b.wav", &[6; 100])]);
        for cut in [100, 600, 1_200, 1_300, 1_536, 1_600, 2_100, 2_560, 2_600] {
            let error = indexed(&bytes[..cut]).unwrap_err().to_string();
            assert!(error.starts_with("at byte ") && error.contains("cut short"), "{cut}: {error}");
        }
        for at in [0, 50, 130, 150, 300] {
            let mut damaged = bytes.clone();
            damaged[1_536 + at] ^= 0x41;
            let error = indexed(&damaged).unwrap_err().to_string();
            assert!(error.starts_with("at byte 1536 a tar header has"), "{at}: {error}");
        }
        let mut lying = header(b"x.wav", 0, b'0');
        lying[124..136].copy_from_slice(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
        seal(&mut lying);
        assert!(indexed(&lying).unwrap_err().to_string().contains("reaches past the end"));
    }
}
