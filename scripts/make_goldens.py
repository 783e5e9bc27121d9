#!/usr/bin/env python3
"""Makes the golden log-mel vectors of tests/fixtures/features with the toolkit's own extractor.

    pip install torch transformers librosa
    python scripts/make_goldens.py            writes tests/fixtures/features/log_mel.json

The signals are seeded and stored as 16-bit integers in the fixture, so that the tests need neither
Python nor this script. A few frames of each are kept.

`log_mel` is the extractor's own code run in f64: in f32 it is off by up to 4e-4 where a band beside a
loud tone falls silent. `normalized` is its output as it is, and null where a band is nearly constant:
there it divides rounding errors by a tiny deviation, which is nothing to agree with.
"""

import argparse
import json
import pathlib

import numpy as np
import torch
import transformers
from transformers import ParakeetFeatureExtractor

RATE = 16_000
SEED = 7


def signals():
    rng = np.random.default_rng(SEED)
    t = np.arange(2_400) / RATE
    chirp = 0.6 * np.sin(2 * np.pi * (100 * t + 0.5 * 50_000 * t**2))
    syllables = np.sin(2 * np.pi * 3 * t) ** 2 * sum(
        np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 30)
    )
    impulse = np.zeros(2_000)
    impulse[777] = 1.0
    step = np.concatenate([np.zeros(1_000), np.full(1_000, 0.5)])
    yield "noise", 0.3 * rng.standard_normal(2_400)
    yield "quiet_noise", 3e-4 * rng.standard_normal(2_400)
    yield "chirp", chirp
    yield "syllables", 0.3 * syllables
    yield "tone", 0.5 * np.sin(2 * np.pi * 1_000 * t)
    yield "square_full_scale", np.where(np.arange(2_400) // 40 % 2 == 0, 1.0, -1.0)
    yield "impulse", impulse
    yield "step_to_dc", step
    yield "dc", np.full(2_000, 0.5)
    yield "silence", np.zeros(1_600)
    yield "one_hop_and_one", 0.3 * rng.standard_normal(321)
    yield "not_whole_hops", 0.3 * rng.standard_normal(1_759)


def log_mel(extractor, samples):
    """The extractor's features before it normalises them, computed by its own code in f64."""
    torch.set_default_dtype(torch.float64)
    single, extractor.mel_filters = extractor.mel_filters, extractor.mel_filters.double()
    x = torch.tensor(samples.astype(np.float64))[None]
    x = torch.cat([x[:, :1], x[:, 1:] - extractor.preemphasis * x[:, :-1]], dim=1)
    features = extractor._torch_extract_fbank_features(x)[0].numpy()
    extractor.mel_filters = single
    torch.set_default_dtype(torch.float32)
    return features


def rounded(rows):
    return [[round(float(x), 5) for x in row] for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).resolve().parent.parent
    default = root / "tests/fixtures/features/log_mel.json"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    out = parser.parse_args().out
    extractor = ParakeetFeatureExtractor()
    cases = []
    for name, signal in signals():
        pcm = np.clip(np.round(signal * 32768), -32768, 32767).astype(np.int16)
        samples = pcm.astype(np.float32) / 32768
        inputs = extractor(samples, sampling_rate=RATE, return_tensors="pt")
        num_frames = int(inputs.attention_mask.sum())
        raw = log_mel(extractor, samples)[:num_frames]
        normalized = inputs.input_features[0, :num_frames].numpy()
        frames = sorted({0, 1, num_frames // 2, num_frames - 1} & set(range(num_frames)))
        degenerate = num_frames < 2 or raw.std(axis=0).min() < 0.02
        cases.append(
            {
                "name": name,
                "samples": pcm.tolist(),
                "num_frames": num_frames,
                "frames": frames,
                "log_mel": rounded(raw[frames]),
                "normalized": None if degenerate else rounded(normalized[frames]),
            }
        )
    fixture = {
        "made_by": "scripts/make_goldens.py with transformers.ParakeetFeatureExtractor()",
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "seed": SEED,
        "cases": cases,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(fixture, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
