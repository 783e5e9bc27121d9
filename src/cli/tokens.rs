//! `asr-train tokens CONFIG`: a vocabulary of the training transcripts as a file, and how it fits.

use std::io::Write;
use std::path::PathBuf;

use super::args::TokensArgs;
use super::failure::{Failure, USAGE};
use super::{say, start_logging};
use crate::config::RunConfig;
use crate::data::{DataError, ManifestError, Utterance, manifest};
use crate::durable::{create_atomic_with, refuse_existing};
use crate::progress::{Display, Screen};
use crate::text::Normalizer;
use crate::tokens::{Coverage, TokenKind, Tokens, TokensConfig};
use crate::wording::{counted, plural};

pub(super) fn run(args: &TokensArgs) -> Result<(), Failure> {
    start_logging(&Screen::new(Display::detect(false)), false);
    let config = RunConfig::load(&args.config, &args.overrides)?;
    config.validate()?;
    let wanted = TokensConfig {
        kind: args.kind.unwrap_or(config.tokens.kind),
        size: args.size.unwrap_or(config.tokens.size),
        file: PathBuf::new(),
    };
    wanted.validate().map_err(|error| Failure::new(USAGE, error))?;
    let out = args.out.clone().unwrap_or_else(|| default_file(&wanted));
    let unwritable = |error| {
        let text = format!("cannot write the tokens to {}", out.display());
        Failure::new(USAGE, anyhow::Error::new(error).context(text))
    };
    refuse_existing(&out).map_err(unwritable)?;
    let normalizer = config.data.normalizer;
    let train = Transcripts::read(&config.data.train, normalizer)?;
    let tokens = Tokens::train(wanted.kind, wanted.size, train.texts())?;
    say(format_args!("tokens  {}", tokens.describe()))?;
    for (split, manifests) in
        [("train", &config.data.train), ("dev", &config.data.dev), ("test", &config.data.test)]
    {
        if !manifests.is_empty() {
            say_fit(split, &tokens, &Transcripts::read(manifests, normalizer)?)?;
        }
    }
    let text = tokens.to_text();
    let bytes = tokens.foreign_file().map_or(text.as_bytes(), |(_, bytes)| bytes);
    create_atomic_with(&out, |file| file.write_all(bytes)).map_err(unwritable)?;
    say(format_args!("written {}; train with it: --set tokens.file={0}", out.display()))
}

fn default_file(wanted: &TokensConfig) -> PathBuf {
    match wanted.kind {
        TokenKind::Auto | TokenKind::Char => PathBuf::from("char.txt"),
        kind => PathBuf::from(format!("{}-{}.json", kind.name(), wanted.size)),
    }
}

/// Normalised transcripts, and the seconds that their manifests declare; `None` if one declares none.
struct Transcripts {
    texts: Vec<String>,
    seconds: Option<f64>,
}

impl Transcripts {
    fn read(manifests: &[PathBuf], normalizer: Normalizer) -> Result<Transcripts, Failure> {
        let utterances = manifest::read_all(manifests)
            .map_err(|errors| DataError::from(ManifestError::from(errors)))?;
        let text = |utterance: &Utterance| normalizer.normalize(utterance.text());
        Ok(Transcripts {
            texts: utterances.iter().map(text).collect(),
            seconds: utterances.iter().map(Utterance::duration_s).sum(),
        })
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }
}

fn say_fit(split: &str, tokens: &Tokens, transcripts: &Transcripts) -> Result<(), Failure> {
    let coverage = Coverage::of(tokens, transcripts.texts());
    let rate = match transcripts.seconds {
        Some(seconds) if seconds > 0.0 => {
            format!(", {:.1} labels a second", coverage.labels as f64 / seconds)
        }
        _ => String::new(),
    };
    say(format_args!(
        "{split:<7} {}, {}, {:.2} labels a word{rate}",
        counted(coverage.transcripts, "transcript"),
        counted(coverage.words, "word"),
        coverage.labels_per_word()
    ))?;
    if coverage.with_unknown > 0 {
        let count = counted(coverage.with_unknown, "transcript");
        let hold = plural(coverage.with_unknown, "holds", "hold");
        say(format_args!("        {count} {hold} {}: never recognised", coverage.unknown))?;
    }
    Ok(())
}
