//! `--set key=value`: a dotted key and a value in TOML, or in what people type when they do not
//! think of TOML.
//!
//! What is not TOML is a string, and so is everything for a key whose default is a string; a bare
//! value for a key whose default is a list is a list of one. A table is merged key by key. Refuses
//! an empty part of a key.

use toml::{Table, Value};

use super::error::ConfigError;
use super::explain::{LIST_AS_TABLE, Refusal, hint, join, known_keys, one_line};

/// One `--set key=value`.
pub(super) struct Assignment {
    argument: String,
    key: String,
    value: Value,
}

impl Assignment {
    /// Reads one argument; `defaults` tell what kind of value the key holds.
    pub(super) fn parse(argument: &str, defaults: &Table) -> Result<Self, ConfigError> {
        let malformed = || ConfigError::OverrideSyntax { argument: one_line(argument) };
        let (key, raw) = argument.split_once('=').ok_or_else(malformed)?;
        let (key, raw) = (key.trim(), raw.trim());
        if key.split('.').any(|part| part.is_empty() || part.contains(char::is_whitespace)) {
            return Err(malformed());
        }
        let default = look_up(defaults, key);
        let is_text = matches!(default, None | Some(Value::String(_)));
        if raw.is_empty() && !is_text {
            let message = match default {
                Some(Value::Array(_)) => "expected a value behind `=`; [] is an empty list",
                _ => "expected a value behind `=`",
            };
            return Err(ConfigError::OverrideBadValue {
                argument: one_line(argument),
                key: key.to_owned(),
                message: message.to_owned(),
            });
        }
        let value = match raw.parse::<Value>() {
            Ok(value) => match (value, default) {
                (Value::String(text), _) => Value::String(text),
                (_, Some(Value::String(_))) => Value::String(raw.to_owned()),
                (value, _) => value,
            },
            Err(_) => Value::String(raw.to_owned()),
        };
        if matches!((default, &value), (Some(Value::Table(_)), Value::Array(_))) {
            return Err(ConfigError::OverrideBadValue {
                argument: one_line(argument),
                key: key.to_owned(),
                message: LIST_AS_TABLE.to_owned(),
            });
        }
        let value = match default {
            Some(Value::Array(_)) if !value.is_array() => Value::Array(vec![value]),
            _ => value,
        };
        Ok(Self { argument: argument.to_owned(), key: key.to_owned(), value })
    }

    /// Puts the value into the table of a config.
    pub(super) fn apply(&self, table: &mut Table) -> Result<(), ConfigError> {
        let (parents, leaf) = self.key.rsplit_once('.').unwrap_or(("", &self.key));
        let mut table = table;
        for part in parents.split('.').filter(|part| !part.is_empty()) {
            let entry = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            let found = entry.type_str();
            table = entry.as_table_mut().ok_or_else(|| ConfigError::OverrideBadValue {
                argument: one_line(&self.argument),
                key: self.key.clone(),
                message: format!("`{part}` holds a value ({found}), not a table of keys"),
            })?;
        }
        merge(table, leaf, &self.value);
        Ok(())
    }

    /// The dotted keys that are set, those inside a table one by one.
    pub(super) fn keys(&self) -> Vec<String> {
        fn visit(key: &str, value: &Value, keys: &mut Vec<String>) {
            match value {
                Value::Table(table) => {
                    table.iter().for_each(|(part, value)| visit(&join(key, part), value, keys))
                }
                _ => keys.push(key.to_owned()),
            }
        }
        let mut keys = Vec::new();
        visit(&self.key, &self.value, &mut keys);
        keys
    }

    /// What was wrong with this override, given what serde said of the config with it.
    pub(super) fn refusal(&self, defaults: &Table, error: &toml::de::Error) -> ConfigError {
        let (argument, key) = (one_line(&self.argument), self.key.clone());
        match Refusal::read(error.message()) {
            Refusal::UnknownField { name, siblings } => {
                // Serde names one part of the key; the hint is about all of it.
                let before: Vec<&str> = key.split('.').take_while(|part| *part != name).collect();
                let parent = before.join(".");
                // A part that is not in the key was in a table typed as the value.
                let is_in_value = parent == key;
                let key = if is_in_value { join(&key, &name) } else { key };
                let hint = hint(&key, &known_keys(defaults, &parent, &siblings));
                ConfigError::OverrideUnknownKey { argument, key, hint }
            }
            Refusal::Other(message) => ConfigError::OverrideBadValue { argument, key, message },
        }
    }
}

fn merge(table: &mut Table, key: &str, value: &Value) {
    match (table.get_mut(key), value) {
        (Some(Value::Table(old)), Value::Table(new)) => {
            new.iter().for_each(|(key, value)| merge(old, key, value))
        }
        _ => {
            table.insert(key.to_owned(), value.clone());
        }
    }
}

fn look_up<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = value.as_table()?.get(part)?;
    }
    Some(value)
}
