//! One line of JSON, and what is wrong with it in words for people who write manifests: what was
//! expected, what is there, and which of its keys was most likely meant. Serde's own words are about Rust
//! and parsers. RFC 8259.

use serde::Deserialize;
use serde_json::{Map, Value, error::Category};

use super::build::Malformed;
use crate::wording::nearest;

/// A key that a line needs, and what other tools call it; a table's columns go by the first that is there.
pub(crate) type Key = (&'static str, &'static [&'static str]);

/// The recording.
pub(crate) const AUDIO: Key = (
    "audio_filepath",
    &[
        "path",
        "wav",
        "audio",
        "file",
        "filename",
        "file_name",
        "wav_filename",
        "audio_path",
        "wav_path",
        "audio_file",
        "audio_filename",
        "wav_filepath",
        "filepath",
        "file_path",
    ],
);

/// What is said.
pub(crate) const TEXT: Key =
    ("text", &["sentence", "transcript", "transcription", "wrd", "normalized_text", "txt"]);

/// Characters shown of what is there.
const SHOWN: usize = 20;

/// Deserialises a line; `keys` are those that may not be missing.
pub(crate) fn from_json<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    keys: &[Key],
) -> Result<T, Malformed> {
    serde_json::from_slice(bytes).map_err(|error| explain(bytes, &error, keys))
}

fn explain(bytes: &[u8], error: &serde_json::Error, keys: &[Key]) -> Malformed {
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
    if bytes.get(start) != Some(&b'{') {
        let reason = format!("expected a JSON object in braces, found {}", found(bytes, start));
        return Malformed { column: Some(start + 1), reason };
    }
    let text = error.to_string();
    // serde_json counts lines too, and here there is only ever one.
    let said = text.rsplit_once(" at line ").map_or(text.as_str(), |(said, _)| said);
    let column = error.column().clamp(1, bytes.len().max(1));
    let reason = match error.classify() {
        Category::Data => in_object(bytes, column, said, keys),
        _ => syntax(said, &found(bytes, column - 1)),
    };
    Malformed { column: Some(column), reason }
}

/// What stands at a byte, between backticks.
fn found(bytes: &[u8], at: usize) -> String {
    // A line may be long, and no character has more than four bytes.
    let rest = bytes.get(at..).unwrap_or_default().trim_ascii_end();
    let start = String::from_utf8_lossy(&rest[..rest.len().min(4 * SHOWN + 4)]);
    if start.is_empty() {
        return "the end of the line".into();
    }
    // What stands there may move the terminal's cursor.
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let shown: String = start.chars().take(SHOWN).map(plain).collect();
    let more = if start.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("`{shown}{more}`")
}

/// What the parser said, and what to do.
fn syntax(said: &str, found: &str) -> String {
    match said {
        "EOF while parsing a string" => {
            "the line ends inside a text: its closing double quote is missing".into()
        }
        _ if said.starts_with("EOF") => {
            "the line ends before its closing brace: it is cut short, or one object takes several lines"
                .into()
        }
        "expected value" | "expected ident" => format!(
            "expected a value (a text in double quotes, a number, true, false or null), found {found}"
        ),
        "expected `:`" => format!("expected a colon behind the key, found {found}"),
        "expected `,` or `}`" | "expected `,` or `]`" => {
            format!("expected a comma or the closing bracket, found {found}")
        }
        "key must be a string" => format!("expected a key in double quotes, found {found}"),
        "trailing comma" => "a comma before the closing bracket; remove it".into(),
        "trailing characters" => {
            format!("expected the end of the line behind the closing brace, found {found}")
        }
        "invalid escape" => {
            "a backslash in a text is written twice; alone it starts an escape, and this is none".into()
        }
        "invalid unicode code point" => {
            "the line is not UTF-8; convert the file, such as by `iconv -t UTF-8`".into()
        }
        "invalid number" | "number out of range" => {
            format!("expected a number that JSON can hold, found {found}")
        }
        _ if said.starts_with("control character") => {
            "a tab or another control character stands in a text; write it as an escape, such as \\t"
                .into()
        }
        _ if said.contains("surrogate") || said.contains("hex escape") => {
            "an escape \\u is one half of a character without the other".into()
        }
        _ => said.into(),
    }
}

/// What is wrong with an object that is JSON as far as it was read.
fn in_object(bytes: &[u8], column: usize, said: &str, keys: &[Key]) -> String {
    let named = |prefix| said.strip_prefix(prefix).and_then(|name: &str| name.strip_suffix('`'));
    if let Some(missing) = named("missing field `") {
        let there = serde_json::from_slice::<Map<String, Value>>(bytes).unwrap_or_default();
        let key = keys.iter().find(|(key, _)| *key == missing);
        return missing_key(missing, key.map_or(&[], |(_, others)| others), &there);
    }
    if let Some(twice) = named("duplicate field `") {
        return format!("the key \"{twice}\" is there twice");
    }
    let (what, expected) = match said.rsplit_once(", expected ") {
        Some((what, expected)) => (what, in_plain_words(expected)),
        None => return said.into(),
    };
    let what = what.strip_prefix("invalid type: ").or(what.strip_prefix("invalid value: "));
    let what = found_in_plain_words(what.unwrap_or(said));
    format!("{} is {what}, expected {expected}", path_at(&bytes[..column]))
}

/// The sentence on a key that is not there.
pub(crate) fn missing_key(missing: &str, others: &[&str], there: &Map<String, Value>) -> String {
    let names = || there.keys().map(String::as_str);
    let alias =
        others.iter().copied().find(|other| names().any(|name| name.eq_ignore_ascii_case(other)));
    let written = alias.and_then(|alias| names().find(|name| name.eq_ignore_ascii_case(alias)));
    if let Some(near) = written.or_else(|| nearest(missing, names())) {
        return format!(
            "no key \"{missing}\"; the nearest is \"{near}\", which should be called so"
        );
    }
    match there.len() {
        0 => format!("no key \"{missing}\""),
        _ => {
            let shown: Vec<String> = names().take(8).map(|name| format!("{name:?}")).collect();
            let more = if there.len() > shown.len() { ", ..." } else { "" };
            format!("no key \"{missing}\" among {}{more}", shown.join(", "))
        }
    }
}

fn in_plain_words(expected: &str) -> &str {
    match expected {
        "a string" | "a borrowed string" | "path string" => "a text in double quotes",
        "f64" => "a number",
        "u64" => "a whole number, 0 or more",
        "a sequence" => "a list in brackets",
        _ if expected.starts_with("struct ") => "an object in braces",
        _ => expected,
    }
}

/// ``integer `3` `` is 3, `string "x"` is "x".
fn found_in_plain_words(found: &str) -> &str {
    match found {
        "null" => "null",
        "map" => "an object",
        "sequence" => "a list",
        _ => found.split_once(' ').map_or(found, |(kind, value)| match kind {
            "integer" | "boolean" | "string" => value.trim_matches('`'),
            "floating" => value.strip_prefix("point ").unwrap_or(value).trim_matches('`'),
            _ => found,
        }),
    }
}

/// Where the value is that these bytes end in, such as `"recording.sources"`; they are the start of valid
/// JSON.
fn path_at(bytes: &[u8]) -> String {
    let mut keys: Vec<String> = Vec::new();
    let mut last = String::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let start = at + 1;
                at = start;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                last = String::from_utf8_lossy(&bytes[start..at.min(bytes.len())]).into_owned();
            }
            b'{' => keys.push(String::new()),
            b'}' if keys.len() > 1 => drop(keys.pop()),
            b':' => {
                if let Some(key) = keys.last_mut() {
                    key.clone_from(&last);
                }
            }
            _ => {}
        }
        at += 1;
    }
    let keys: Vec<String> = keys.into_iter().filter(|key| !key.is_empty()).collect();
    if keys.is_empty() { "the line".into() } else { format!("\"{}\"", keys.join(".")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors are looked at")]
    struct Line<'a> {
        audio_filepath: std::borrow::Cow<'a, str>,
        text: String,
        duration: Option<f64>,
        #[serde(default)]
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors are looked at")]
    struct Inner {
        count: u64,
    }

    fn refusal(line: &str) -> (usize, String) {
        let error = from_json::<Line>(line.as_bytes(), &[AUDIO, TEXT]).unwrap_err();
        (error.column.unwrap(), error.reason)
    }

    #[test]
    fn what_is_no_json_says_what_was_expected_and_what_is_there() {
        for (line, column, words) in [
            ("three seven", 1, "expected a JSON object in braces, found `three seven`"),
            ("  [1, 2]", 3, "expected a JSON object in braces, found `[1, 2]`"),
            ("{\"text\": nine}", 10, "expected a value (a text in double quotes, a number"),
            ("{\"text\": }", 10, "found `}`"),
            ("{\"text\": \"a}", 12, "its closing double quote is missing"),
            ("{\"text\": \"a\"", 12, "before its closing brace"),
            ("{text: 1}", 2, "expected a key in double quotes, found `text: 1}`"),
            ("{\"text\" 1}", 9, "expected a colon behind the key, found `1}`"),
            ("{\"text\": \"a\" \"b\": 1}", 14, "expected a comma or the closing bracket"),
            ("{\"text\": \"a\",}", 14, "a comma before the closing bracket"),
            ("{\"text\": \"C:\\x\"}", 14, "a backslash in a text is written twice"),
            ("{\"text\": \"a\tb\"}", 12, "write it as an escape"),
            ("{\"duration\": 1e999}", 18, "expected a number that JSON can hold"),
            ("{\"duration\": NaN}", 14, "found `NaN}`"),
            ("\u{1b}[2J", 1, "found `\u{fffd}[2J`"),
        ] {
            let (at, reason) = refusal(line);
            assert!(reason.contains(words), "{line}: {reason}");
            assert!(at.abs_diff(column) <= 1, "{line}: {at}");
        }
    }

    #[test]
    fn a_missing_key_names_the_nearest_that_is_there() {
        for (line, words) in [
            (r#"{"audio_filepath": "a", "txt": "x"}"#, "no key \"text\"; the nearest is \"txt\""),
            (r#"{"audio_filepath": "a", "sentence": "x"}"#, "the nearest is \"sentence\""),
            (r#"{"audio_filepath": "a", "Transcript": "x"}"#, "the nearest is \"Transcript\""),
            (r#"{"audio_filepaht": "a", "text": "x"}"#, "the nearest is \"audio_filepaht\""),
            (r#"{"path": "a", "text": "x"}"#, "no key \"audio_filepath\"; the nearest is \"path\""),
            (
                r#"{"audio_filepath": "a", "lang": "x"}"#,
                "no key \"text\" among \"audio_filepath\", \"lang\"",
            ),
            ("{}", "no key \"audio_filepath\""),
        ] {
            let (_, reason) = refusal(line);
            assert!(reason.starts_with(words) || reason.contains(words), "{line}: {reason}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_named_by_its_key() {
        let line = |rest: &str| format!("{{\"audio_filepath\": \"a\\\"b\", {rest}}}");
        for (rest, words) in [
            ("\"text\": 3", "\"text\" is 3, expected a text in double quotes"),
            ("\"text\": null", "\"text\" is null, expected a text in double quotes"),
            ("\"text\": [1]", "\"text\" is a list, expected a text in double quotes"),
            (
                "\"text\": \"x\", \"duration\": \"2 s\"",
                "\"duration\" is \"2 s\", expected a number",
            ),
            ("\"text\": \"x\", \"duration\": true", "\"duration\" is true, expected a number"),
            (
                "\"text\": \"x\", \"inner\": [{\"count\": 1}, {\"count\": -1.5}]",
                "\"inner.count\" is -1.5, expected a whole number, 0 or more",
            ),
            ("\"text\": \"x\", \"text\": \"y\"", "the key \"text\" is there twice"),
        ] {
            let (_, reason) = refusal(&line(rest));
            assert_eq!(reason, words, "{rest}");
        }
    }
}
