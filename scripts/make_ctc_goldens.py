#!/usr/bin/env python3
"""Writes kernels/tests/fixtures/ctc.json: losses and gradients as PyTorch has them, in f64.

    python3 scripts/make_ctc_goldens.py [--seed 7]

Only whoever changes the definition runs this; the tests read the file.
"""
import argparse
import json
import re
from pathlib import Path

import torch

OUT = Path(__file__).resolve().parent.parent / "kernels/tests/fixtures/ctc.json"

# name, T, C, blank, scale, frame lengths, labels
CASES = [
    ("plain", 8, 5, 0, 3, [8], [[1, 2, 3]]),
    ("repeats", 9, 4, 0, 3, [9], [[1, 1, 2, 2, 1]]),
    ("exactly feasible", 5, 4, 0, 3, [5], [[3, 3, 3]]),
    ("empty target", 6, 3, 0, 3, [6], [[]]),
    ("one frame", 1, 4, 0, 3, [1], [[2]]),
    ("blank last", 7, 4, 3, 3, [7], [[0, 2, 0]]),
    ("ragged, one infeasible", 8, 5, 2, 3, [8, 5, 3, 2], [[0, 1], [4, 4, 3], [], [1, 1]]),
    ("spiked", 8, 5, 0, 300, [8], [[1, 4, 4]]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    cases = []
    for name, t, c, blank, scale, frame_lens, labels in CASES:
        b = len(labels)
        # Sixty-fourths are exact in f32, so every reader starts from the same logits.
        logits = (torch.rand(b, t, c, dtype=torch.float64) * 2 - 1) * scale
        logits = ((logits * 64).round() / 64).requires_grad_()
        padded = torch.full((b, max(map(len, labels))), blank)
        for row, label in enumerate(labels):
            padded[row, : len(label)] = torch.tensor(label, dtype=torch.long)
        lens = torch.tensor(frame_lens), torch.tensor([len(label) for label in labels])

        def losses(zero_infinity):
            log_probs = logits.log_softmax(-1).transpose(0, 1)
            return torch.nn.functional.ctc_loss(
                log_probs, padded, *lens, blank=blank, reduction="none", zero_infinity=zero_infinity
            )

        losses(True).sum().backward()
        cases.append(
            {
                "name": name,
                "frames": t,
                "classes": c,
                "blank": blank,
                "frame_lens": frame_lens,
                "labels": labels,
                "logits": logits.flatten().tolist(),
                "nll": [x if x != float("inf") else None for x in losses(False).tolist()],
                "grad": [float(f"{x:.9g}") for x in logits.grad.flatten().tolist()],
            }
        )
    fixture = {
        "made_by": f"scripts/make_ctc_goldens.py --seed {args.seed}",
        "torch": torch.__version__,
        "dtype": "float64",
        "null": "infinite",
        "cases": cases,
    }
    text = json.dumps(fixture, indent=1)
    # One array a line reads better than one number.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda m: " ".join(m.group().split()), text)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(text + "\n")


if __name__ == "__main__":
    main()
