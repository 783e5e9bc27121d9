//! How counts, paths and long sentences are put before a reader: plurals, paths as seen from where the
//! reader is, lines that fit a terminal of 80 columns, and messages that differ only in names and numbers
//! told as one.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use unicode_width::UnicodeWidthStr;

/// Columns of a terminal that nobody has widened.
pub const WIDTH: usize = 80;

/// `1 recording`, `2 recordings`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The form that goes with `count`.
pub fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// What messages of one kind have in common: the message without numbers, names between quotes and paths.
pub fn kind(message: &str) -> String {
    let mut kind = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(c) = rest.chars().next() {
        let is_at_word = kind.ends_with(|c: char| !c.is_alphanumeric()) || kind.is_empty();
        let word_len = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let len = match c {
            '"' | '`' => rest[1..].find(c).map_or(rest.len(), |end| end + 2),
            c if c.is_ascii_digit() => {
                rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
            }
            _ if is_at_word && rest[..word_len].contains('/') => word_len,
            c => {
                kind.push(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
        };
        kind.push('_');
        rest = &rest[len..];
    }
    kind
}

/// The first of each kind of message, at most `most`.
pub fn of_each_kind<'a, T>(
    items: &'a [T],
    most: usize,
    message: impl Fn(&'a T) -> &'a str,
) -> Vec<&'a T> {
    let mut kinds = HashSet::new();
    items.iter().filter(|item| kinds.insert(kind(message(item)))).take(most).collect()
}

/// The name in `names` that was most likely meant by `name`.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |other: &&str| strsim::damerau_levenshtein(name, other);
    let best = names.into_iter().min_by_key(distance)?;
    // Two slips in a word of five letters are as much as a reader would forgive.
    (distance(&best) * 5 <= 2 * name.len().max(best.len())).then_some(best)
}

/// The text with paths below the working directory as seen from there.
pub fn from_here(text: &str) -> String {
    match std::env::current_dir() {
        Ok(here) => seen_from(&here, text),
        Err(_) => text.to_owned(),
    }
}

fn seen_from(here: &Path, text: &str) -> String {
    let is_root = !here.components().any(|part| matches!(part, Component::Normal(_)));
    let Some(here) = here.to_str().filter(|_| !is_root) else { return text.to_owned() };
    let here = format!("{here}{}", std::path::MAIN_SEPARATOR);
    let mut seen = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&here) {
        let (before, after) = rest.split_at(at);
        seen.push_str(before);
        // Inside a longer path it is another folder.
        let is_start = !seen.ends_with(|c: char| c.is_alphanumeric() || "/._-".contains(c));
        seen.push_str(if is_start { "" } else { &here });
        rest = &after[here.len()..];
    }
    seen + rest
}

/// The path without `X/..`, where X is a folder and no link: a link's `..` leads elsewhere.
pub fn without_detours(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for part in path.components() {
        let is_detour = part == Component::ParentDir
            && matches!(short.components().next_back(), Some(Component::Normal(_)))
            && std::fs::symlink_metadata(&short).is_ok_and(|there| there.is_dir());
        if is_detour {
            short.pop();
        } else {
            short.push(part);
        }
    }
    short
}

/// At most `width` columns of the text, its middle left out.
pub fn shortened(text: &str, width: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if text.width() <= width || chars.len() <= 4 {
        return text.to_owned();
    }
    let mut kept = chars.len().min(width.saturating_sub(3)).max(1);
    loop {
        // The end of a path says more than its start.
        let head: String = chars[..kept / 3].iter().collect();
        let tail: String = chars[chars.len() - (kept - kept / 3)..].iter().collect();
        let short = format!("{head}...{tail}");
        if short.width() <= width || kept == 1 {
            return short;
        }
        kept -= 1;
    }
}

/// The text in lines of at most [`WIDTH`] columns, broken at blanks; all but the first are indented by
/// `indent`. A word that is too long for a line loses its middle.
pub fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    for (at, line) in text.split('\n').enumerate() {
        lines.push_str(if at > 0 { "\n" } else { "" });
        let own = line.len() - line.trim_start_matches(' ').len();
        lines.push_str(&line[..own]);
        let mut column = own;
        for (at, word) in line[own..].split(' ').enumerate() {
            let word = shortened(word, WIDTH - indent);
            let width = word.width();
            if at > 0 && column + 1 + width > WIDTH {
                lines.push('\n');
                lines.push_str(&" ".repeat(indent));
                column = indent;
            } else if at > 0 {
                lines.push(' ');
                column += 1;
            }
            lines.push_str(&word);
            column += width;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(1, "recording"), "1 recording");
        assert_eq!([0, 2].map(|count| counted(count, "line")), ["0 lines", "2 lines"]);
        assert_eq!((plural(1, "is", "are"), plural(0, "is", "are")), ("is", "are"));
    }

    #[test]
    fn messages_that_differ_in_names_and_numbers_are_of_one_kind() {
        let alike = [
            "/data/a b.wav: sample rate is 16000 Hz, \"x y\" wants `8000`",
            "/data/a c.wav: sample rate is 8 Hz, \"z\" wants `1`",
        ];
        assert_eq!(kind(alike[0]).replace("b.wav", "c.wav"), kind(alike[1]));
        assert_eq!(kind("audio/x.wav: 2.5 s"), kind("b/y.wav: 13.75 s"));
        assert_eq!(
            of_each_kind(&["no 1", "no 2", "none", "no 3", "yes"], 2, |m| m),
            [&"no 1", &"none"]
        );
        assert_ne!(kind("the file is empty"), kind("the file is cut short"));
        assert_eq!(kind("an open \" quote"), "an open _");
        assert_eq!(kind("\u{e9}t\u{e9} 7"), "\u{e9}t\u{e9} _");
    }

    #[test]
    fn a_slip_of_the_pen_is_recognised_and_a_strange_word_is_not() {
        let commands = ["check", "import", "doctor"];
        assert_eq!(nearest("chek", commands), Some("check"));
        assert_eq!(nearest("improt", commands), Some("import"));
        assert_eq!(nearest("digits.toml", commands), None);
        assert_eq!(nearest("", commands), None);
    }

    #[test]
    fn paths_are_seen_from_where_the_reader_is() {
        let seen = |text: &str| seen_from(Path::new("/home/ann"), text);
        assert_eq!(seen("/home/ann/a/b.wav: bad, see \"/home/ann/c\""), "a/b.wav: bad, see \"c\"");
        for other in ["/home/anna/x", "/mnt/home/ann/x", "/home/ann", "none"] {
            assert_eq!(seen(other), other);
        }
        assert_eq!(seen_from(Path::new("/"), "/a/b"), "/a/b");
    }

    #[test]
    fn a_detour_is_left_out_unless_it_leads_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        assert_eq!(without_detours(&root.join("a/b/../../c/m")), root.join("c/m"));
        assert_eq!(without_detours(&root.join("none/../a")), root.join("none/../a"));
        assert_eq!(without_detours(Path::new("../x")), Path::new("../x"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
            assert_eq!(without_detours(&root.join("link/../m")), root.join("link/../m"));
        }
    }

    #[test]
    fn long_texts_lose_their_middle_and_never_their_end() {
        assert_eq!(shortened("short", 10), "short");
        let short = shortened(&format!("/{}/end.wav", "x".repeat(100)), 20);
        assert!(
            short.width() == 20 && short.ends_with("end.wav") && short.contains("..."),
            "{short}"
        );
        for width in 0..12 {
            let short =
                shortened("\u{4f60}\u{597d}\u{4f60}\u{597d}\u{4f60}\u{597d}\u{4f60}", width);
            assert!(short.width() <= width.max(5), "{short}");
        }
    }

    #[test]
    fn lines_fit_the_terminal_and_lose_no_word() {
        let text = format!("    {} {} end", "word ".repeat(60), "p".repeat(200));
        let lines = wrapped(&text, 6);
        assert!(lines.lines().all(|line| line.width() <= WIDTH), "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("      ")), "{lines}");
        assert_eq!(lines.matches("word").count(), 60);
        assert_eq!(wrapped("a\n  b", 4), "a\n  b");
    }
}
