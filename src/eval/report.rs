//! What one evaluated set leaves on disk: `hyp.trn`, `ref.trn`, `per_utt.csv` and `results.json`.
//!
//! Each file appears whole or not at all, `results.json` last, so that its presence means that the
//! others are there. Rates are fractions derived from the counts beside them, null when undefined.
//! The `.trn` files are sclite's: `text (id)` a line (NIST SCTK, `infmts.htm`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::durable::write_atomic;
use crate::score::{CorpusScore, word_edits};

/// Why a report cannot be written.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The directory cannot be made.
    #[error("{}: cannot make the directory of the evaluation; choose another with --out DIR", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// A file cannot be written; an earlier version of it is untouched.
    #[error("{}: cannot write the evaluation", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
}

/// One recognised utterance.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredUtterance {
    /// Its id, unique in the set.
    pub id: String,
    /// What was said.
    pub reference: String,
    /// What was recognised.
    pub hypothesis: String,
    /// Seconds of audio.
    pub duration_s: f64,
}

/// What the evaluation knows beyond the texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// The checkpoint's file.
    pub checkpoint: String,
    /// The config the checkpoint was trained with.
    pub config: String,
    /// The device that ran the model.
    pub device: String,
    /// Name of the text normaliser applied to both sides; `none` if none was.
    pub normalizer: String,
    /// Seconds from the first batch to the last hypothesis.
    pub compute_s: f64,
    /// Utterances whose frames cannot spell their transcript. They are scored all the same.
    pub infeasible: usize,
    /// Characters of the references that the model has no token for, with counts.
    pub unknown_characters: BTreeMap<char, usize>,
}

/// `results.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Word error rate, as a fraction.
    pub wer: Option<f64>,
    /// Character error rate, as a fraction.
    pub cer: Option<f64>,
    /// Words in the references.
    pub ref_words: usize,
    /// Words replaced.
    pub substitutions: usize,
    /// Words missing.
    pub deletions: usize,
    /// Words too many.
    pub insertions: usize,
    /// Characters in the references, single spaces included.
    pub ref_characters: usize,
    /// Character edits of all three kinds.
    pub character_errors: usize,
    /// Utterances scored.
    pub utterances: usize,
    /// Utterances with at least one word error.
    pub utterances_with_errors: usize,
    /// Share of utterances with an error.
    pub sentence_error_rate: Option<f64>,
    /// Seconds of audio.
    pub audio_seconds: f64,
    /// Seconds it took to recognise them.
    pub compute_seconds: f64,
    /// Seconds of audio recognised per second.
    pub rtfx: Option<f64>,
    /// The checkpoint's file.
    pub checkpoint: String,
    /// The config the checkpoint was trained with.
    pub config: String,
    /// The device that ran the model.
    pub device: String,
    /// Name of the text normaliser applied to both sides.
    pub normalizer: String,
    /// Utterances whose frames cannot spell their transcript.
    pub infeasible: usize,
    /// Occurrences in the references of characters without a token.
    pub unknown_character_count: usize,
    /// Those characters with their counts.
    pub unknown_characters: BTreeMap<char, usize>,
}

impl Results {
    /// Gathers the figures of a scored set.
    pub fn new(score: &CorpusScore, audio_seconds: f64, facts: &RunFacts) -> Self {
        let rtfx = audio_seconds / facts.compute_s;
        Self {
            wer: score.wer(),
            cer: score.cer(),
            ref_words: score.words.reference_len(),
            substitutions: score.words.subs,
            deletions: score.words.dels,
            insertions: score.words.inss,
            ref_characters: score.characters.reference_len(),
            character_errors: score.characters.errors(),
            utterances: score.utterances,
            utterances_with_errors: score.utterances_with_errors,
            sentence_error_rate: score.sentence_error_rate(),
            audio_seconds,
            compute_seconds: facts.compute_s,
            rtfx: rtfx.is_finite().then_some(rtfx),
            checkpoint: facts.checkpoint.clone(),
            config: facts.config.clone(),
            device: facts.device.clone(),
            normalizer: facts.normalizer.clone(),
            infeasible: facts.infeasible,
            unknown_character_count: facts.unknown_characters.values().sum(),
            unknown_characters: facts.unknown_characters.clone(),
        }
    }
}

/// Scores a set and writes its report into `dir`, which is made if missing.
///
/// # Errors
/// When the directory or a file cannot be written; no file is left half-written.
pub fn write_report(
    dir: &Path,
    utterances: &[ScoredUtterance],
    facts: &RunFacts,
) -> Result<(CorpusScore, Results), ReportError> {
    let mut score = CorpusScore::default();
    for utterance in utterances {
        score.add(&utterance.reference, &utterance.hypothesis);
    }
    let audio_seconds = utterances.iter().map(|utterance| utterance.duration_s).sum();
    let results = Results::new(&score, audio_seconds, facts);

    fs::create_dir_all(dir)
        .map_err(|source| ReportError::Directory { path: dir.to_owned(), source })?;
    let write = |name: &str, bytes: io::Result<Vec<u8>>| {
        let path = dir.join(name);
        bytes
            .and_then(|bytes| write_atomic(&path, &bytes))
            .map_err(|source| ReportError::Write { path, source })
    };
    write("ref.trn", Ok(trn(utterances, |utterance| &utterance.reference)))?;
    write("hyp.trn", Ok(trn(utterances, |utterance| &utterance.hypothesis)))?;
    write("per_utt.csv", per_utterance_csv(utterances))?;
    let json = serde_json::to_vec_pretty(&results).map(|mut json| {
        json.push(b'\n');
        json
    });
    write("results.json", json.map_err(io::Error::from))?;
    Ok((score, results))
}

fn trn<'a>(
    utterances: &'a [ScoredUtterance],
    text: impl Fn(&'a ScoredUtterance) -> &'a String,
) -> Vec<u8> {
    let mut lines = String::new();
    for utterance in utterances {
        for word in text(utterance).split_whitespace() {
            lines.push_str(word);
            lines.push(' ');
        }
        lines.push_str(&format!("({})\n", trn_id(&utterance.id)));
    }
    lines.into_bytes()
}

/// Ids must not hold what ends them in a `.trn` line; such characters, and `%`, are written as `%`
/// and their code in hexadecimal, so that different ids stay different.
fn trn_id(id: &str) -> String {
    let mut written = String::with_capacity(id.len());
    for c in id.chars() {
        if c.is_whitespace() || c.is_control() || matches!(c, '(' | ')' | '%') {
            written.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            written.push(c);
        }
    }
    written
}

fn per_utterance_csv(utterances: &[ScoredUtterance]) -> io::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let header = [
        "id",
        "ref_words",
        "substitutions",
        "deletions",
        "insertions",
        "wer",
        "duration_s",
        "reference",
        "hypothesis",
    ];
    csv.write_record(header)?;
    for utterance in utterances {
        let edits = word_edits(&utterance.reference, &utterance.hypothesis);
        csv.write_record([
            &utterance.id,
            &edits.reference_len().to_string(),
            &edits.subs.to_string(),
            &edits.dels.to_string(),
            &edits.inss.to_string(),
            &edits.rate().map_or_else(String::new, |rate| rate.to_string()),
            &utterance.duration_s.to_string(),
            &utterance.reference,
            &utterance.hypothesis,
        ])?;
    }
    csv.into_inner().map_err(csv::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utterance(id: &str, reference: &str, hypothesis: &str) -> ScoredUtterance {
        ScoredUtterance {
            id: id.into(),
            reference: reference.into(),
            hypothesis: hypothesis.into(),
            duration_s: 1.5,
        }
    }

    fn set() -> Vec<ScoredUtterance> {
        vec![
            utterance("a-1", "three  seven oh", "three oh oh"),
            utterance("b (2)", "", "nine"),
            utterance("c,\"3\"", "say \"one\", two", ""),
        ]
    }

    fn facts() -> RunFacts {
        RunFacts {
            checkpoint: "best.safetensors".into(),
            config: "configs/digits.toml".into(),
            device: "cpu".into(),
            normalizer: "none".into(),
            compute_s: 0.5,
            infeasible: 1,
            unknown_characters: BTreeMap::from([('"', 2), ('é', 1)]),
        }
    }

    #[test]
    fn trn_lines_hold_text_and_an_id_that_cannot_end_early() {
        let dir = tempfile::tempdir().unwrap();
        write_report(&dir.path().join("eval/test"), &set(), &facts()).unwrap();
        let read =
            |name: &str| fs::read_to_string(dir.path().join("eval/test").join(name)).unwrap();
        assert_eq!(
            read("ref.trn"),
            "three seven oh (a-1)\n(b%20%282%29)\nsay \"one\", two (c,\"3\")\n"
        );
        assert_eq!(read("hyp.trn"), "three oh oh (a-1)\nnine (b%20%282%29)\n(c,\"3\")\n");
    }

    #[test]
    fn different_ids_stay_different_in_trn() {
        let ids = ["a b", "a_b", "a%20b", "a(b", "a\nb"];
        let written: std::collections::BTreeSet<String> = ids.iter().map(|id| trn_id(id)).collect();
        assert_eq!(written.len(), ids.len());
    }

    #[test]
    fn the_table_reads_back_with_counts_and_quotes_intact() {
        let bytes = per_utterance_csv(&set()).unwrap();
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        let rows: Vec<Vec<String>> =
            reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        assert_eq!(
            rows[0],
            [
                "a-1",
                "3",
                "1",
                "0",
                "0",
                "0.3333333333333333",
                "1.5",
                "three  seven oh",
                "three oh oh"
            ]
        );
        assert_eq!(rows[1], ["b (2)", "0", "0", "0", "1", "", "1.5", "", "nine"]);
        assert_eq!(rows[2], ["c,\"3\"", "3", "0", "3", "0", "1", "1.5", "say \"one\", two", ""]);
    }

    #[test]
    fn results_hold_counts_that_give_their_rates() {
        let dir = tempfile::tempdir().unwrap();
        let (score, results) = write_report(dir.path(), &set(), &facts()).unwrap();
        let text = fs::read_to_string(dir.path().join("results.json")).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        // 1 substitution, 3 deletions and 1 insertion over 6 words.
        assert_eq!(json["wer"].as_f64(), Some(5.0 / 6.0));
        assert_eq!(
            (json["ref_words"].as_u64(), json["substitutions"].as_u64()),
            (Some(6), Some(1))
        );
        assert_eq!((json["deletions"].as_u64(), json["insertions"].as_u64()), (Some(3), Some(1)));
        assert_eq!((json["audio_seconds"].as_f64(), json["rtfx"].as_f64()), (Some(4.5), Some(9.0)));
        assert_eq!(
            (json["unknown_character_count"].as_u64(), json["unknown_characters"]["é"].as_u64()),
            (Some(3), Some(1))
        );
        assert_eq!(json["checkpoint"], "best.safetensors");
        assert_eq!(score.words.kaldi_line(), "%WER 83.33 [ 5 / 6, 1 ins, 3 del, 1 sub ]");
    }

    #[test]
    fn undefined_rates_are_null() {
        let dir = tempfile::tempdir().unwrap();
        let facts = RunFacts { compute_s: 0.0, ..facts() };
        write_report(dir.path(), &[], &facts).unwrap();
        let json: serde_json::Value =
            serde_json::from_slice(&fs::read(dir.path().join("results.json")).unwrap()).unwrap();
        for key in ["wer", "cer", "sentence_error_rate", "rtfx"] {
            assert!(json.get(key).is_some_and(serde_json::Value::is_null), "{key}");
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named_and_left_without_halves() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "in the way").unwrap();
        let error = write_report(&file.join("test"), &set(), &facts()).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("file/test: cannot make the directory of the evaluation; choose another with --out DIR"),
            "{error}"
        );
        fs::create_dir(dir.path().join("per_utt.csv")).unwrap();
        let error = write_report(dir.path(), &set(), &facts()).unwrap_err();
        assert!(error.to_string().ends_with("per_utt.csv: cannot write the evaluation"), "{error}");
        assert!(!dir.path().join("results.json").exists());
    }
}
