#!/usr/bin/env python3
"""Holds `asr-train export` to its word with Hugging Face's own code, on a trained run.

    pip install torch transformers soundfile
    cargo run --release --bin asr-train -- configs/smoke.toml --out runs/smoke
    cargo build --release --bins --example logits
    python scripts/test_export.py runs/smoke data/digits/dev.jsonl

Exports the run, loads the directory with `ParakeetForCTC.from_pretrained` and `AutoProcessor` (no
tensor missing, none left over), and recognises the manifest alone and in padded batches. The text has to
be that of `asr-eval`, letter by letter, and the logits those of this program within 1e-3, from the audio
on; the processor's tokenizer has to spell the transcripts and give them back.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import soundfile
import torch
from safetensors.torch import load_file
from transformers import AutoProcessor, ParakeetForCTC

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGITS = 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("manifest", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/release", help="where the programs are")
    parser.add_argument("--batch", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        check(arguments, pathlib.Path(scratch))


def check(arguments, scratch):
    programs, run, manifest = arguments.bin, arguments.run, arguments.manifest
    exported = scratch / "exported"

    def call(*command):
        subprocess.run([str(part) for part in command], check=True)

    call(programs / "asr-train", "export", run, exported, "--format", "hf")
    call(programs / "asr-eval", run, "--manifest", manifest, "--out", scratch, "--device", "cpu", "--quiet")
    call(programs / "examples/logits", run, manifest, scratch / "logits.safetensors")
    ours = load_file(scratch / "logits.safetensors")
    lines = (scratch / "eval" / manifest.stem / "hyp.trn").read_text().splitlines()
    texts = {match[2]: match[1].strip() for match in (re.match(r"(.*)\(([^()]*)\)$", line) for line in lines)}

    model, info = ParakeetForCTC.from_pretrained(exported, output_loading_info=True)
    wrong = {kind: list(names) for kind, names in info.items() if names}
    assert not wrong, f"from_pretrained: {wrong}"
    processor = AutoProcessor.from_pretrained(exported)
    rate = processor.feature_extractor.sampling_rate
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    audio = [soundfile.read(manifest.parent / row["audio_filepath"], dtype="float32") for row in rows]
    assert {rate_hz for _, rate_hz in audio} == {rate}
    worst = {}
    for size in [1, arguments.batch]:
        worst[size] = 0.0
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            samples = [samples for samples, _ in audio[start : start + size]]
            inputs = processor(samples, audio_kwargs={"sampling_rate": rate}, sampling_rate=rate)
            with torch.no_grad():
                answer = model.generate(**inputs, return_dict_in_generate=True)
            for row, logits, text in zip(batch, answer.logits, processor.batch_decode(answer.sequences)):
                want = ours[row["id"]]
                worst[size] = max(worst[size], (logits[: len(want)] - want).abs().max().item())
                assert text.strip() == texts[row["id"]], f"{row['id']}: {text!r}, asr-eval: {texts[row['id']]!r}"
    for row in rows:
        ids = processor.tokenizer(row["text"])["input_ids"]
        spelt = processor.tokenizer.decode(ids, group_tokens=False)
        assert spelt == row["text"], f"{row['text']!r} comes back as {spelt!r}"
    right = sum(texts[row["id"]] == row["text"] for row in rows)
    print(f"{len(rows)} utterances, {right} of them right: the same texts; logits off by at most "
          + ", ".join(f"{off:.1e} in batches of {size}" for size, off in worst.items()))
    assert max(worst.values()) < LOGITS, "logits"


if __name__ == "__main__":
    sys.exit(main())
