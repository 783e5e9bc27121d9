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

fn read(file: &serde_json::Value) -> Tokens {
    hugging_face::read(&file.to_string(), Path::new("tokenizer.json")).unwrap().into()
}

#[test]
fn an_alphabet_is_written_as_words_and_read_back() {
    let tokens = Tokens::from_transcripts(["a b"]).unwrap();
    let (file, pad) = tokens.tokenizer_json().unwrap();
    let vocabulary = serde_json::json!({" ": 0, "a": 1, "b": 2, "<pad>": 3});
    assert_eq!((&file["model"]["vocab"], pad.as_str()), (&vocabulary, "<pad>"));
    let again = read(&file);
    assert_eq!((again.blank(), again.symbols()), (3, tokens.symbols()));
    assert_eq!(again.encode("ab a").unwrap(), [1, 2, 0, 1]);
    assert_eq!(again.decode(&[1, 2, 0, 1, 3]), "ab a");
    assert_eq!(again.encode_known("abc").1.counts[&'c'], 1);
}

#[test]
fn what_other_programs_get_has_the_blank_for_its_last_token_and_reads_back_as_it_was() {
    let corpus = std::fs::read_to_string(fixture("corpus.txt")).unwrap();
    let mut all = all_files();
    for (name, kind) in [("bpe", TokenKind::Bpe), ("unigram", TokenKind::Unigram)] {
        let tokens = Tokens::train(kind, 120, corpus.lines()).unwrap();
        all.insert(name.to_owned(), tokens);
    }
    let mut read_back = 0;
    for (name, tokens) in &all {
        if name.ends_with(".model") {
            let error = tokens.tokenizer_json().unwrap_err().to_string();
            assert!(error.contains("SentencePiece model; train with"), "{name}: {error}");
            continue;
        }
        let (file, pad) = tokens.tokenizer_json().unwrap();
        let added = file["added_tokens"].as_array().unwrap();
        let blanks: Vec<_> = added.iter().filter(|token| token["id"] == tokens.blank()).collect();
        assert_eq!(blanks.len(), 1, "{name}");
        assert_eq!(blanks[0]["content"], pad, "{name}");
        assert!(added.iter().all(|token| token["id"].as_u64() <= Some(tokens.blank().into())));
        let again = read(&file);
        assert_eq!((again.blank(), again.symbols()), (tokens.blank(), tokens.symbols()), "{name}");
        for case in cases() {
            let (ids, unknown) = tokens.encode_known(&case.text);
            assert_eq!(again.encode_known(&case.text), (ids.clone(), unknown), "{name}");
            assert_eq!(again.decode(&ids), tokens.decode(&ids), "{name}");
        }
        assert_eq!(again.tokenizer_json().unwrap(), (file, pad), "{name}");
        read_back += 1;
    }
    assert_eq!(read_back, 7);
}

#[test]
fn the_blanks_token_takes_no_name_of_a_piece_and_no_number_of_another() {
    let whole = std::fs::read_to_string(fixture("hf-bpe.json")).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&whole).unwrap();
    file["model"]["vocab"]["<pad>"] = 300.into();
    let (named, pad) = read(&file).tokenizer_json().unwrap();
    assert_eq!(pad, "[PAD]");
    assert_eq!(read(&named).symbols(), read(&file).symbols());
    for (at, name) in ["[PAD]", "<blank>", "<blk>"].into_iter().enumerate() {
        file["model"]["vocab"][name] = (301 + at).into();
    }
    let error = read(&file).tokenizer_json().unwrap_err().to_string();
    assert!(error.contains("pieces of the names <pad>, [PAD]"), "{error}");
    let mut file: serde_json::Value = serde_json::from_str(&whole).unwrap();
    file["model"]["vocab"]["far"] = 302.into();
    let error = read(&file).tokenizer_json().unwrap_err().to_string();
    assert!(error.contains("its class 300 has no token"), "{error}");
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
