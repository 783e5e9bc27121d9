//! Turns serde's refusals into words for people who write configs: which key, what was expected,
//! what was meant.
//!
//! The structs stay the only list of legal keys: serde's own list of a table's fields, which
//! includes options that are absent by default, is joined with the keys that the defaults show.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::error::{ConfigError, Place};
use crate::score::edits;

/// What serde said, taken apart. Serde hands out text only; the tests of the loader hold its
/// wording.
pub(super) enum Refusal {
    /// A key that its table does not know, and those it does.
    UnknownField { name: String, siblings: Vec<String> },
    /// Anything else, as one line.
    Other(String),
}

impl Refusal {
    pub(super) fn read(message: &str) -> Self {
        if let Some(rest) = message.strip_prefix("unknown field `") {
            // "name`, expected one of `a`, `b`": every second piece between backticks is a name.
            let mut names = rest.split('`').step_by(2).map(str::to_owned);
            let name = names.next().unwrap_or_default();
            return Self::UnknownField { name, siblings: names.collect() };
        }
        for prefix in ["invalid type: ", "invalid value: "] {
            if let Some((found, expected)) =
                message.strip_prefix(prefix).and_then(|rest| rest.rsplit_once(", expected "))
            {
                return Self::Other(one_line(&format!(
                    "expected {}, found {found}",
                    in_plain_words(expected)
                )));
            }
        }
        if let Some(expected) = message.strip_prefix("wanted ") {
            return Self::Other(one_line(&format!("expected {}", in_plain_words(expected))));
        }
        Self::Other(one_line(message))
    }
}

/// Refuses a list where a table belongs: serde would fill the table's keys by position.
pub(super) fn refuse_lists_as_tables(
    path: &Path,
    text: &str,
    root: &DeTable<'_>,
    defaults: &Table,
) -> Result<(), ConfigError> {
    fn visit(
        table: &DeTable<'_>,
        defaults: &Table,
        prefix: &str,
    ) -> Option<(String, Range<usize>)> {
        table.iter().find_map(|(key, value)| {
            let dotted = join(prefix, key.get_ref());
            match (defaults.get(key.get_ref().as_ref())?, value.get_ref()) {
                (Value::Table(_), DeValue::Array(_)) => Some((dotted, value.span())),
                (Value::Table(defaults), DeValue::Table(inner)) => visit(inner, defaults, &dotted),
                _ => None,
            }
        })
    }
    match visit(root, defaults, "") {
        None => Ok(()),
        Some((key, span)) => Err(ConfigError::BadValue {
            place: Place::of_offset(path, text, span.start),
            key,
            message: LIST_AS_TABLE.to_owned(),
        }),
    }
}

/// What is wrong with a list where a table belongs.
pub(super) const LIST_AS_TABLE: &str = "expected a table, found a list";

/// Rust's names of types, for people who write configs.
fn in_plain_words(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "usize" | "u64" => "a whole number, 0 or more",
        "isize" | "i64" | "i32" | "i16" | "i8" => "a whole number",
        "a nonzero usize" | "a nonzero u64" | "a nonzero u32" => "a whole number, 1 or more",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "path string" => "a path in quotes",
        "a string" => "a text in quotes",
        "string or table" => "one of the names this key knows, in quotes",
        _ if expected.starts_with("struct ") => "a table",
        _ => expected,
    }
}

/// The error of a config file that is TOML but not a config.
pub(super) fn in_file(
    path: &Path,
    text: &str,
    root: &DeTable<'_>,
    defaults: &Table,
    error: &toml::de::Error,
) -> ConfigError {
    let span = error.span().unwrap_or(0..0);
    let place = Place::of_offset(path, text, span.start);
    let key = key_at(root, &span);
    match Refusal::read(error.message()) {
        Refusal::UnknownField { siblings, .. } => {
            let parent = key.rsplit_once('.').map_or("", |(parent, _)| parent);
            let hint = hint(&key, &known_keys(defaults, parent, &siblings));
            ConfigError::UnknownKey { place, key, hint }
        }
        Refusal::Other(message) => ConfigError::BadValue { place, key, message },
    }
}

/// The dotted key of the smallest key or value around `span`.
fn key_at(root: &DeTable<'_>, span: &Range<usize>) -> String {
    fn visit(
        table: &DeTable<'_>,
        prefix: &str,
        span: &Range<usize>,
        best: &mut Option<(usize, String)>,
    ) {
        for (key, value) in table {
            let dotted = join(prefix, key.get_ref());
            for around in [key.span(), value.span()] {
                let is_around = around.start <= span.start && span.end <= around.end;
                if is_around && best.as_ref().is_none_or(|(len, _)| around.len() < *len) {
                    *best = Some((around.len(), dotted.clone()));
                }
            }
            if let DeValue::Table(inner) = value.get_ref() {
                visit(inner, &dotted, span, best);
            }
        }
    }
    let mut best = None;
    visit(root, "", span, &mut best);
    best.map_or_else(|| "config".to_owned(), |(_, key)| key)
}

/// Every key that may be meant: those the defaults show and those serde listed beside the unknown
/// one, which include the options that are absent by default.
pub(super) fn known_keys(defaults: &Table, parent: &str, siblings: &[String]) -> BTreeSet<String> {
    fn visit(table: &Table, prefix: &str, keys: &mut BTreeSet<String>) {
        for (key, value) in table {
            let dotted = join(prefix, key);
            if let Value::Table(inner) = value {
                visit(inner, &dotted, keys);
            }
            keys.insert(dotted);
        }
    }
    let mut keys: BTreeSet<String> = siblings.iter().map(|sibling| join(parent, sibling)).collect();
    visit(defaults, "", &mut keys);
    keys
}

pub(super) fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

fn split_leaf(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// The end of an unknown key's message: the nearest known key, else what its table knows.
pub(super) fn hint(key: &str, known: &BTreeSet<String>) -> String {
    let distance = |a: &str, b: &str| {
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        edits(&a, &b).errors()
    };
    let (parent, leaf) = split_leaf(key);
    // A right name in the wrong table is as likely as a typo, so the last part is compared alone,
    // too.
    let nearest = known
        .iter()
        .map(|candidate| {
            (distance(key, candidate).min(1 + distance(leaf, split_leaf(candidate).1)), candidate)
        })
        .min();
    let most = (leaf.chars().count() / 3).clamp(1, 4);
    match nearest {
        Some((found, candidate)) if found <= most => {
            format!("; the nearest known key is `{candidate}`")
        }
        _ => {
            let beside: Vec<&str> = known
                .iter()
                .map(|key| split_leaf(key))
                .filter(|(of, _)| *of == parent)
                .map(|(_, leaf)| leaf)
                .collect();
            match (beside.is_empty(), parent) {
                (true, _) => String::new(),
                (false, "") => format!("; the config knows {}", beside.join(", ")),
                (false, parent) => format!("; [{parent}] knows {}", beside.join(", ")),
            }
        }
    }
}

pub(super) fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
