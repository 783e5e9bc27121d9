//! Vocabularies of pieces from the command line: made, trained with, measured with, refused.

use std::fs;
use std::path::Path;

use crate::sandbox::Sandbox;
use crate::tones::CONFIG;

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokens");
    fs::read(folder.join(name)).unwrap()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

impl Sandbox {
    /// `asr-train tokens ARGS`.
    fn tokens(&self, args: &[&str]) -> crate::sandbox::Outcome {
        self.run("asr-train", &[&["tokens"], args].concat())
    }
}

#[test]
fn pieces_are_written_for_other_programs_and_their_fit_is_told() {
    let sandbox = Sandbox::with_tones();
    let outcome = sandbox.tokens(&["run.toml", "--kind", "bpe", "--size", "7"]).succeeds();
    assert!(outcome.stdout.starts_with("tokens  7 bpe pieces\n"), "{outcome}");
    assert!(outcome.stdout.contains("train   12 transcripts, "), "{outcome}");
    assert!(outcome.stdout.contains("dev     4 transcripts, "), "{outcome}");
    // Every word is a piece.
    assert!(outcome.stdout.contains(" words, 1.00 labels a word, "), "{outcome}");
    let file = json(&sandbox.read("bpe-7.json"));
    assert_eq!(file["model"]["type"], "BPE");
    assert_eq!(file["model"]["vocab"].as_object().unwrap().len(), 7);

    sandbox.tokens(&["run.toml", "--kind", "unigram", "--size", "7", "-o", "u.json"]).succeeds();
    assert_eq!(json(&sandbox.read("u.json"))["model"]["type"], "Unigram");
    sandbox.tokens(&["run.toml"]).succeeds();
    assert_eq!(sandbox.read("char.txt"), "asr-tokens 1\n<space>\na\nb\nc\n");
    sandbox.assert_nothing_half_written(".");
}

#[test]
fn what_no_vocabulary_can_be_made_of_is_refused_with_what_can() {
    let sandbox = Sandbox::with_tones();
    for kind in ["bpe", "unigram"] {
        let tokens = |size| sandbox.tokens(&["run.toml", "--kind", kind, "--size", size]);
        tokens("99")
            .fails(3, &["give 7 pieces at most, and 99 are asked for", "ask for 7 or fewer"]);
        tokens("3").fails(3, &["3 pieces are fewer than the 4 different characters", "ask for 4"]);
        tokens("0").fails(2, &["tokens.size = 0"]);
    }
    sandbox.write("kept.json", "mine");
    sandbox
        .tokens(&["run.toml", "-o", "kept.json"])
        .fails(2, &["kept.json", "such a file already"]);
    assert_eq!(sandbox.read("kept.json"), "mine");
    sandbox.tokens(&["run.toml", "--kind", "word"]).fails(2, &["char, bpe or unigram"]);
    let manifest = sandbox.read("train.jsonl");
    sandbox.write("train.jsonl", manifest.replace("\"text\":\"", "\"text\":\"\u{2581}"));
    let words = ["12 training transcripts hold '\u{2581}' (U+2581)", "data.normalizer"];
    sandbox.tokens(&["run.toml", "--kind", "bpe", "--size", "7"]).fails(3, &words);
    let lines = manifest.lines().map(|line| {
        let mut line = json(line);
        line["text"] = "".into();
        format!("{line}\n")
    });
    sandbox.write("train.jsonl", lines.collect::<String>());
    sandbox.tokens(&["run.toml", "--kind", "bpe"]).fails(3, &["hold no characters"]);
}

#[test]
fn a_run_learns_pieces_and_is_measured_without_their_file() {
    let sandbox = Sandbox::new();
    let head = "test = [\"test.jsonl\"]\ndev = [";
    let tokens = "\n[tokens]\nfile = \"pieces/bpe.json\"\n";
    sandbox.write("run.toml", CONFIG.replace("dev = [", head) + tokens);
    sandbox.corpus("train", 60, 1);
    sandbox.corpus("dev", 12, 2);
    sandbox.corpus("test", 20, 3);
    fs::create_dir(sandbox.path("pieces")).unwrap();
    let made = ["run.toml", "--kind", "bpe", "--size", "7", "-o", "pieces/bpe.json"];
    sandbox.tokens(&made).succeeds();
    let check = sandbox.check(&["run.toml"]).succeeds();
    assert!(check.stdout.contains("tokens 7 bpe pieces, 1.00 a word; "), "{check}");
    let outcome = sandbox.train(&["run.toml", "--out", "run"]).succeeds();
    assert!(outcome.stderr.contains("tokens 7 bpe pieces, 1.00 a word; "), "{outcome}");
    assert_eq!(sandbox.read("run/tokenizer.json"), sandbox.read("pieces/bpe.json"));
    fs::remove_dir_all(sandbox.path("pieces")).unwrap();
    sandbox.eval(&["run", "--max-wer", "20"]).succeeds();
    let hypotheses = sandbox.read("run/eval/test/hyp.trn");
    assert!(!hypotheses.contains('\u{2581}') && hypotheses.contains("a b"), "{hypotheses}");
    // The run goes on with its own tokens.
    let more = ["run.toml", "--out", "run", "--set", "train.epochs=21"];
    let resumed = sandbox.train(&more).succeeds();
    assert!(resumed.stderr.contains("resumed at step"), "{resumed}");
}

#[test]
fn pieces_learnt_at_the_start_of_a_run_are_those_of_the_command() {
    let sandbox = Sandbox::with_tones();
    let set = ["--set", "tokens.kind=unigram", "--set", "tokens.size=6"];
    sandbox.train(&[&["run.toml", "--out", "run"][..], &set].concat()).succeeds();
    sandbox.tokens(&[&["run.toml"][..], &set].concat()).succeeds();
    assert_eq!(sandbox.read("run/tokenizer.json"), sandbox.read("unigram-6.json"));
    let report = sandbox.check(&[&["run.toml"][..], &set].concat()).succeeds();
    assert!(report.stdout.contains("tokens 6 unigram pieces"), "{report}");
    assert_eq!(json(&sandbox.read("data_report.json"))["tokens"], "6 unigram pieces");
}

#[test]
fn a_sentencepiece_model_trains_and_its_unknown_class_is_never_recognised() {
    let sandbox = Sandbox::with_tones();
    sandbox.write("sp.model", fixture("sp-unigram.model"));
    let set = ["--set", "tokens.file=sp.model"];
    sandbox.train(&[&["run.toml", "--out", "run"][..], &set].concat()).succeeds();
    assert_eq!(fs::read(sandbox.path("run/tokenizer.model")).unwrap(), fixture("sp-unigram.model"));
    assert!(sandbox.read("run/tokens.txt").starts_with("asr-tokens 2 sentencepiece\n"));
    sandbox.write("test.jsonl", sandbox.read("dev.jsonl"));
    sandbox.eval(&["run", "--manifest", "test.jsonl"]).succeeds();
    let hypotheses = sandbox.read("run/eval/test/hyp.trn");
    assert!(!hypotheses.contains("unk") && !hypotheses.contains('\u{2047}'), "{hypotheses}");
}

#[test]
fn a_broken_or_foreign_tokenizer_is_refused_before_the_recordings_are_read() {
    let sandbox = Sandbox::with_tones();
    let whole = fixture("sp-unigram.model");
    sandbox.write("cut.model", &whole[..whole.len() / 2]);
    sandbox.write("bytes.json", br#"{"model": {"type": "WordPiece", "vocab": {}}}"#);
    let mut level = json(std::str::from_utf8(&fixture("hf-bpe.json")).unwrap());
    level["pre_tokenizer"] = serde_json::json!({"type": "ByteLevel"});
    sandbox.write("level.json", level.to_string());
    sandbox.write("audio/train-000.wav", b"no audio");
    for (file, words) in [
        (
            "cut.model",
            ["cut.model: neither text nor a whole SentencePiece model", "tokens.file takes"],
        ),
        (
            "bytes.json",
            ["model.type is \"WordPiece\", and what is read is BPE", "asr-train tokens"],
        ),
        ("level.json", ["pre_tokenizer is \"ByteLevel\"", "asr-train tokens CONFIG"]),
        ("absent.json", ["absent.json: cannot read the tokens", "No such file"]),
    ] {
        let set = format!("tokens.file={file}");
        sandbox.train(&["run.toml", "--out", "run", "--set", &set]).fails(3, &words);
        sandbox.check(&["run.toml", "--set", &set]).fails(3, &words);
    }
    let both = ["run.toml", "--set", "tokens.file=a.json", "--set", "tokens.kind=bpe"];
    sandbox.check(&both).fails(2, &["tokens.kind = bpe", "leave one of them out"]);
}

#[test]
fn transcripts_that_a_tokenizer_cannot_spell_stop_the_run_with_their_characters() {
    let sandbox = Sandbox::with_tones();
    sandbox.tokens(&["run.toml", "--kind", "bpe", "--size", "7"]).succeeds();
    let manifest = sandbox.read("train.jsonl").replacen("\"text\":\"", "\"text\":\"zzq ", 2);
    sandbox.write("train.jsonl", manifest);
    let set = ["run.toml", "--set", "tokens.file=bpe-7.json"];
    let words = ["2 transcripts", "outside the alphabet: 'z' (U+007A)", "4x, 'q' (U+0071) 2x"];
    sandbox.train(&[&set[..], &["--out", "run"]].concat()).fails(3, &words[..2]);
    let check = sandbox.check(&set).fails(3, &words);
    assert!(check.stderr.contains("(tokens.kind,"), "{check}");
    // A tokenizer that folds case spells what it is given, and says that it reads otherwise.
    let upper = sandbox.read("dev.jsonl").replacen("\"text\":\"", "\"text\":\"The ", 1);
    sandbox.write("dev.jsonl", upper);
    sandbox.write("train.jsonl", sandbox.read("train.jsonl").replace("zzq ", ""));
    sandbox.write("sp.model", fixture("sp-unigram.model"));
    let folds = sandbox.check(&["run.toml", "--set", "tokens.file=sp.model"]).succeeds();
    let words = "1 transcript is changed by the tokenizer's own normalisation";
    assert!(folds.stdout.contains(words), "{folds}");
}
