//! Data sets of other tools: trained on as they are, and converted by `asr-train import`.

use std::fs;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::sandbox::Sandbox;

/// The tones of `train.jsonl` as utterances (id, file, duration, text).
fn tones(sandbox: &Sandbox) -> Vec<(String, String, f64, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let manifest = sandbox.read("train.jsonl");
    let lines = manifest.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| {
            let duration_s = line["duration"].as_f64().unwrap();
            (text(&line["id"]), text(&line["audio_filepath"]), duration_s, text(&line["text"]))
        })
        .collect()
}

/// The same utterances in every form that is read, by the name to give to the program.
fn forms(sandbox: &Sandbox) -> Vec<&'static str> {
    let root = sandbox.root().display().to_string();
    let mut form = std::collections::BTreeMap::<&str, String>::new();
    form.insert("table/m.csv", "id,path,duration,text\n".into());
    form.insert("table/m.tsv", "id\tpath\tsentence\n".into());
    form.insert("lj/metadata.csv", String::new());
    for (id, audio, duration_s, text) in tones(sandbox) {
        let mut add =
            |name, line: String| form.entry(name).or_default().push_str(&format!("{line}\n"));
        add("kaldi/wav.scp", format!("r-{id} {root}/{audio}"));
        add("kaldi/segments", format!("{id} r-{id} 0 -1"));
        add("kaldi/text", format!("{id} {text}"));
        add("kaldi/utt2spk", format!("{id} s{}", id.len()));
        add("table/m.csv", format!("{id},../{audio},{duration_s},\"{text}\""));
        add("table/m.tsv", format!("{id}\t../{audio}\t{text}"));
        add("lj/metadata.csv", format!("{id}|x|{text}"));
        add("libri/7/9/7-9.trans.txt", format!("{id} {text}"));
        let cut = serde_json::json!({
            "id": id, "type": "MonoCut", "start": 0, "duration": duration_s, "channel": 0,
            "supervisions": [{"id": id, "text": text}],
            "recording": {"id": id, "sampling_rate": 8000, "duration": duration_s,
                          "sources": [{"type": "file", "channels": [0], "source": format!("../{audio}")}]}
        });
        add("lhotse/cuts.jsonl", cut.to_string());
        let bytes = fs::read(sandbox.path(&audio)).unwrap();
        sandbox.write(&format!("lj/wavs/{id}.wav"), &bytes);
        sandbox.write(&format!("libri/7/9/{id}.wav"), &bytes);
        sandbox.write(&format!("shards/{id}.wav"), &bytes);
        sandbox.write(&format!("shards/{id}.txt"), &text);
    }
    for (name, text) in form {
        sandbox.write(name, text);
    }
    for (tar, ids) in
        [("tars/a-0.tar", "train-00[0-4].*"), ("tars/a-1.tar", "train-00[5-9].* train-01*")]
    {
        fs::create_dir_all(sandbox.path("tars")).unwrap();
        sandbox.tar("shards", ids, tar);
    }
    vec!["kaldi", "table/m.csv", "table/m.tsv", "lj", "libri", "lhotse/cuts.jsonl", "tars"]
}

#[test]
fn every_form_is_trained_on_directly_and_as_what_it_is_imported_to() {
    let sandbox = Sandbox::with_tones();
    for form in forms(&sandbox) {
        let outcome = sandbox.run("asr-train", &["import", form, "out/m.jsonl"]);
        let outcome = if sandbox.path("out").exists() {
            outcome
        } else {
            outcome.fails(2, &["out/m.jsonl: cannot write the manifest", "No such file"]);
            fs::create_dir(sandbox.path("out")).unwrap();
            sandbox.run("asr-train", &["import", form, "out/m.jsonl"])
        };
        let outcome = outcome.succeeds();
        assert!(outcome.stdout.contains("\nutterances  12\n"), "{form}: {outcome}");
        let check = |manifest: &str| {
            let set = format!("data.train={manifest}");
            sandbox.check(&["run.toml", "--set", &set]).succeeds().stdout
        };
        let direct = check(form);
        assert!(direct.contains("train     12 utterances"), "{form}: {direct}");
        assert_eq!(direct, check("out/m.jsonl"), "{form}");
        // The tones' own manifest names no speakers, and forms differ in whether they claim durations.
        let audio_and_text = |report: &str| -> Vec<String> {
            let claims = ["speakers", "declared hours"];
            let is_claim = |line: &&str| claims.iter().any(|claim| line.starts_with(claim));
            report.lines().filter(|line| !is_claim(line)).map(str::to_owned).collect()
        };
        assert_eq!(audio_and_text(&direct), audio_and_text(&check("train.jsonl")), "{form}");
        // What is there stays, whoever made it.
        let again = sandbox.run("asr-train", &["import", form, "out/m.jsonl"]);
        again.fails(2, &["out/m.jsonl", "there is such a file already"]);
        fs::remove_file(sandbox.path("out/m.jsonl")).unwrap();
    }
}

#[test]
fn a_tar_is_trained_on_and_evaluated() {
    let sandbox = Sandbox::with_tones();
    forms(&sandbox);
    let sets = ["--set", "data.train=tars", "--set", "data.dev=kaldi", "--set", "train.epochs=1"];
    sandbox.train(&[&["run.toml", "--out", "run"], &sets[..]].concat()).succeeds();
    let from_tar = sandbox.eval(&["run", "--manifest", "tars"]).succeeds().stdout;
    let from_files = sandbox.eval(&["run", "--manifest", "train.jsonl"]).succeeds().stdout;
    let kaldi_line =
        |text: &str| text.lines().find(|line| line.contains("%WER")).unwrap().to_owned();
    assert_eq!(kaldi_line(&from_tar), kaldi_line(&from_files));
}

#[test]
fn the_counts_are_those_of_the_source() {
    let sandbox = Sandbox::with_tones();
    forms(&sandbox);
    sandbox.append("kaldi/segments", "late r-train-000 0 0.2\n");
    let outcome = sandbox.run("asr-train", &["import", "kaldi", "m.jsonl"]).succeeds();
    let want = "source      Kaldi data directory\nutterances  12\nhours       unknown  (12 without a duration)\nspeakers    1\nleft out    1  no transcript in text (first: \"late\" of kaldi/segments)\nwritten     m.jsonl\n";
    assert_eq!(outcome.stdout, want);
    let first: Value =
        serde_json::from_str(sandbox.read("m.jsonl").lines().next().unwrap()).unwrap();
    assert_eq!(first["audio_filepath"], "audio/train-000.wav", "relative to the new manifest");
    assert_eq!(first["offset"], 0.0);
}

#[test]
fn clips_that_are_not_there_are_counted() {
    let sandbox = Sandbox::with_tones();
    sandbox.write("cv/clips/a.wav", "");
    let tsv = "client_id\tpath\tsentence\nx\ta.wav\ta\nx\tb.wav\tb\nx\tc.wav\tc\n";
    sandbox.write("cv/train.tsv", tsv);
    let outcome = sandbox.run("asr-train", &["import", "cv/train.tsv", "m.jsonl"]).succeeds();
    let want =
        "\nmissing     2  recordings are not there (first: cv/clips/b.wav, cv/train.tsv:3)\n";
    assert!(outcome.stdout.contains(want), "{outcome}");
    assert_eq!(sandbox.read("m.jsonl").lines().count(), 3);
}

#[test]
fn the_faults_of_all_files_of_a_directory_are_told_at_once() {
    let sandbox = Sandbox::with_tones();
    sandbox.write("kaldi/wav.scp", "k sox k.mp3 -t wav - |\nl\n");
    sandbox.write("kaldi/text", "k a\nm b\n");
    sandbox.write("kaldi/utt2dur", "k long\n");
    let words = [
        "kaldi: 4 faults",
        "kaldi/wav.scp:1: ",
        "kaldi/wav.scp:2: the recording has no file",
        "kaldi/utt2dur:1: \"long\" is no number",
        "kaldi/text:2: utterance \"m\"",
    ];
    sandbox.run("asr-train", &["import", "kaldi", "m.jsonl"]).fails(3, &words);
}

#[test]
fn a_broken_source_exits_with_3_and_writes_nothing() {
    let sandbox = Sandbox::with_tones();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    sandbox.utterance("k", "a", &mut rng);
    sandbox.write("kaldi/wav.scp", "k sox k.mp3 -t wav - |\n");
    sandbox.write("kaldi/text", "k a\n");
    let words = ["kaldi/wav.scp:1: \"sox k.mp3 -t wav - |\" is a command", "> FILE.wav"];
    sandbox.run("asr-train", &["import", "kaldi", "m.jsonl"]).fails(3, &words);
    sandbox
        .run("asr-train", &["import", "nothing", "m.jsonl"])
        .fails(3, &["nothing", "No such file"]);
    sandbox.run("asr-train", &["import", "kaldi"]).fails(2, &["DEST"]);
    sandbox
        .run("asr-train", &["import", "train.jsonl", "./train.jsonl"])
        .fails(2, &["name another file"]);
    assert!(!sandbox.path("m.jsonl").exists());
    sandbox.assert_nothing_half_written("audio");
}
