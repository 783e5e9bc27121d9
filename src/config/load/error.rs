//! Why there is no config: one line each, with the place, the key and the way out.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::policy::SourceError;

/// A place in a config file, printed as `path:line:column`. Both count from 1, the column in
/// characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it.
    pub path: PathBuf,
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl Place {
    /// The place of byte `offset` of `text`.
    pub(super) fn of_offset(path: &Path, text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let before = before.strip_prefix('\u{feff}').unwrap_or(before);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            path: path.to_owned(),
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_start..].chars().count(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path.display(), self.line, self.column)
    }
}

/// Why there is no config. Every message is one line.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot read the config file", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The file is not text.
    #[error("{place}: the config file is not valid UTF-8; save it as UTF-8 text")]
    NotUtf8 {
        /// The first bad byte.
        place: Place,
    },
    /// The file is not TOML.
    #[error("{place}: not valid TOML: {message}")]
    Syntax {
        /// Where the parser stopped.
        place: Place,
        /// What it expected.
        message: String,
    },
    /// The file holds a key that no component owns.
    #[error("{place}: unknown key `{key}`{hint}")]
    UnknownKey {
        /// The key in the file.
        place: Place,
        /// The dotted key.
        key: String,
        /// The nearest known key, or those of its table, as the end of a sentence.
        hint: String,
    },
    /// A key holds something it cannot hold.
    #[error("{place}: `{key}`: {message}")]
    BadValue {
        /// The value in the file.
        place: Place,
        /// The dotted key.
        key: String,
        /// What was expected and what was found.
        message: String,
    },
    /// `--set` without a key and a value.
    #[error(
        "--set {argument}: expected key=value with a dotted key, such as --set optim.learning_rate=1e-3"
    )]
    OverrideSyntax {
        /// As typed.
        argument: String,
    },
    /// `--set` of a key that no component owns.
    #[error("--set {argument}: unknown key `{key}`{hint}")]
    OverrideUnknownKey {
        /// As typed.
        argument: String,
        /// The dotted key.
        key: String,
        /// The nearest known key, or those of its table, as the end of a sentence.
        hint: String,
    },
    /// `--set` of a value that its key cannot hold.
    #[error("--set {argument}: `{key}`: {message}")]
    OverrideBadValue {
        /// As typed.
        argument: String,
        /// The dotted key.
        key: String,
        /// What was expected and what was found.
        message: String,
    },
    /// What the weights say of themselves cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The config and the weights that it starts from are of different models.
    #[error(
        "`{key}` = {given}, but the weights in init_from = {} have {theirs}; leave the key out, and it comes from there", path.display()
    )]
    SourceConflict {
        /// The dotted key.
        key: String,
        /// Its value in the config.
        given: String,
        /// Its value in the weights' own config.
        theirs: String,
        /// Where the weights are.
        path: PathBuf,
    },
    /// The config cannot be written as TOML: it is not a table, or holds what TOML has no words
    /// for.
    #[error("the config cannot be written as TOML: {message}")]
    Write {
        /// What the writer refused.
        message: String,
    },
}
