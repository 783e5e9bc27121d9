//! Against Hugging Face's `tokenizers` and Google's SentencePiece: their files, and what they make of
//! ordinary text and of text meant to break tokenizers (`tests/fixtures/tokens`, made by
//! `scripts/make_token_goldens.py`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::{Rng, SeedableRng};
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    file: String,
    text: String,
    ids: Vec<u32>,
    unknown: bool,
    decoded: String,
}

#[derive(Deserialize)]
struct Goldens {
    cases: Vec<Case>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokens").join(name)
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(fixture("goldens.json")).unwrap();
    serde_json::from_str::<Goldens>(&text).unwrap().cases
}

fn all_files() -> BTreeMap<String, Tokens> {
    let names: std::collections::BTreeSet<String> =
        cases().into_iter().map(|case| case.file).collect();
    assert_eq!(names.len(), 12);
    names.into_iter().map(|name| (name.clone(), Tokens::load(&fixture(&name)).unwrap())).collect()
}

#[test]
fn pieces_and_texts_are_those_of_the_libraries() {
    let files = all_files();
    let mut wrong = Vec::new();
    assert!(cases().len() > 400);
    for case in cases() {
        let tokens = &files[&case.file];
        let (ids, unknown) = tokens.encode_known(&case.text);
        let decoded = tokens.decode(&ids);
        let found = (&ids, !unknown.is_empty(), &decoded);
        if found != (&case.ids, case.unknown, &case.decoded) {
            let want = (&case.ids, case.unknown, &case.decoded);
            wrong.push(format!("{}: {:?}: {found:?}, not {want:?}", case.file, case.text));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn bpe_learns_the_vocabulary_and_merges_that_hugging_face_learns() {
    let corpus = std::fs::read_to_string(fixture("corpus.txt")).unwrap();
    let tokens = Tokens::train(TokenKind::Bpe, 300, corpus.lines()).unwrap();
    let model = |bytes: &[u8]| -> serde_json::Value {
        serde_json::from_slice::<serde_json::Value>(bytes).unwrap()["model"].clone()
    };
    let theirs = model(&std::fs::read(fixture("hf-bpe.json")).unwrap());
    assert_eq!(model(tokens.foreign_file().unwrap().1), theirs);
}

#[test]
fn a_unigram_model_learnt_here_takes_as_few_labels_as_theirs() {
    let corpus = std::fs::read_to_string(fixture("corpus.txt")).unwrap();
    let tokens = Tokens::train(TokenKind::Unigram, 200, corpus.lines()).unwrap();
    let labels = |tokens: &Tokens| Coverage::of(tokens, corpus.lines()).labels as f64;
    let theirs = Tokens::load(&fixture("sp-unigram.model")).unwrap();
    // Theirs has three classes that spell nothing.
    assert!(labels(&tokens) < 1.02 * labels(&theirs), "{} {}", labels(&tokens), labels(&theirs));
}

#[test]
fn a_padding_token_behind_the_pieces_is_the_blank_and_unknown_classes_spell_nothing() {
    let files = all_files();
    let parakeet = &files["hf-parakeet.json"];
    let sentencepiece = &files["sp-bpe-bytes.model"];
    assert_eq!(parakeet.blank(), 420);
    assert_eq!(parakeet.num_classes(), sentencepiece.num_classes());
    for (name, tokens) in &files {
        for (class, symbol) in tokens.symbols().iter().enumerate() {
            if ["<unk>", "<s>", "</s>"].contains(&symbol.as_str()) {
                assert!(!tokens.spells(class as u32), "{name} {symbol}");
                assert_eq!(tokens.decode(&[class as u32]), "", "{name} {symbol}");
            }
        }
    }
}

#[test]
fn an_alphabet_as_words_is_read_and_a_blank_is_added_where_there_is_none() {
    let file = serde_json::json!({
        "added_tokens": [{"id": 3, "content": "<pad>", "special": true}],
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "[\\s\\S]"},
            "behavior": "Isolated",
            "invert": false,
        },
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordLevel",
            "vocab": {" ": 0, "a": 1, "b": 2, "<pad>": 3},
            "unk_token": "<unk>",
        },
    });
    let path = Path::new("tokenizer.json");
    let tokens: Tokens = hugging_face::read(&file.to_string(), path).unwrap().into();
    assert_eq!((tokens.blank(), tokens.symbols().concat().as_str()), (3, " ab"));
    assert_eq!(tokens.encode("ab a").unwrap(), [1, 2, 0, 1]);
    assert_eq!(tokens.decode(&[1, 2, 0, 1, 3]), "ab a");
    assert_eq!(tokens.encode_known("abc").1.counts[&'c'], 1);
    assert_eq!(tokens.tokenizer_json("<pad>").unwrap(), file);

    let bpe = &all_files()["hf-bpe.json"];
    let padded = bpe.tokenizer_json("<pad>").unwrap();
    assert_eq!(padded["added_tokens"][0]["id"], 300);
    let again: Tokens = hugging_face::read(&padded.to_string(), path).unwrap().into();
    assert_eq!((again.symbols(), again.blank()), (bpe.symbols(), 300));
}

#[test]
fn every_file_comes_back_from_a_checkpoint_as_it_was() {
    for (name, tokens) in all_files() {
        let again = Tokens::parse(&tokens.to_text(), Path::new("tokens.txt")).unwrap();
        assert_eq!(again, tokens, "{name}");
        let bytes = std::fs::read(fixture(&name)).unwrap();
        assert_eq!(tokens.foreign_file().unwrap().1, bytes, "{name}");
        let text = "three seven oh nine";
        assert_eq!(again.encode(text), tokens.encode(text));
    }
}

#[test]
fn a_damaged_file_is_refused_or_read_and_never_panics() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("broken");
    for name in all_files().keys() {
        let whole = std::fs::read(fixture(name)).unwrap();
        for round in 0..60 {
            let mut bytes = whole.clone();
            if round % 2 == 0 {
                bytes.truncate(rng.random_range(0..bytes.len()));
            }
            for _ in 0..rng.random_range(0..4) {
                if !bytes.is_empty() {
                    let at = rng.random_range(0..bytes.len());
                    bytes[at] = rng.random();
                }
            }
            std::fs::write(&path, &bytes).unwrap();
            match Tokens::load(&path) {
                Ok(tokens) => {
                    let (labels, _) = tokens.encode_known("three  Seven \u{e9}");
                    tokens.decode(&labels);
                }
                Err(error) => assert!(error.to_string().contains("broken"), "{error}"),
            }
        }
    }
}

#[test]
fn what_is_not_read_is_refused_by_name_with_a_way_out() {
    let whole = std::fs::read_to_string(fixture("hf-bpe.json")).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("tokenizer.json");
    for (key, value, words) in [
        ("/model/type", r#""WordPiece""#, "model.type is \"WordPiece\""),
        ("/model/end_of_word_suffix", r#""</w>""#, "model.end_of_word_suffix is \"</w>\""),
        ("/model/dropout", "0.1", "model.dropout is 0.1"),
        ("/pre_tokenizer", r#"{"type": "ByteLevel"}"#, "pre_tokenizer is \"ByteLevel\""),
        (
            "/pre_tokenizer/pretokenizers/0",
            r#"{"type": "Digits"}"#,
            "pretokenizers[0] is \"Digits\"",
        ),
        ("/normalizer", r#"{"type": "BertNormalizer"}"#, "normalizer is \"BertNormalizer\""),
        (
            "/normalizer",
            r#"{"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}"#,
            "normalizer.pattern is {\"Regex\":\"a+\"}",
        ),
        ("/decoder", "null", "decoder is null"),
        ("/decoder", r#"{"type": "WordPiece"}"#, "decoder is \"WordPiece\""),
    ] {
        let mut file = whole.clone();
        *file.pointer_mut(key).unwrap() = serde_json::from_str(value).unwrap();
        std::fs::write(&path, file.to_string()).unwrap();
        let error = Tokens::load(&path).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("tokenizer.json:"), "{error}");
        assert!(error.contains("asr-train tokens CONFIG"), "{error}");
    }
    for (text, words) in [
        ("{\"model\": {}}", "model.type is null"),
        ("{}", "no whole tokenizer.json"),
        ("three seven", "neither text nor a whole SentencePiece model"),
        ("", "it holds no pieces"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Tokens::load(&path).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}
