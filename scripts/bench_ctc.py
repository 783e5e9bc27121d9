#!/usr/bin/env python3
"""CTC on a CPU, this project's beside PyTorch's: loss and gradient with respect to logits.

    python3 scripts/bench_ctc.py [--repeats 200] [--threads 2] [--json OUT]

Runs `cargo bench -p asr-kernels` (which checks against the f64 reference before it times)
and `log_softmax + ctc_loss + backward` in turns over the same shapes, and prints a table.
Needs PyTorch with CPU kernels.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent


def ours(repeats, threads):
    """Medians of the Rust bench by shape."""
    out = subprocess.run(
        ["cargo", "bench", "-q", "-p", "asr-kernels", "--bench", "ctc", "--", str(repeats)],
        cwd=ROOT,
        env={**os.environ, "RAYON_NUM_THREADS": str(threads)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [row for row in rows if row["work"] == "nll_and_grad"]


def torchs(shape, repeats):
    """Sorted milliseconds of PyTorch's loss and gradient."""
    torch.manual_seed(7)
    b, t, c, u = (shape[k] for k in "btcu")
    logits = torch.randn(b, t, c, requires_grad=True)
    labels = torch.randint(1, c, (b, u))
    frame_lens, label_lens = torch.full((b,), t), torch.full((b,), u)

    def once():
        logits.grad = None
        log_probs = logits.log_softmax(-1).transpose(0, 1)
        torch.nn.functional.ctc_loss(
            log_probs, labels, frame_lens, label_lens, reduction="sum"
        ).backward()

    for _ in range(max(repeats // 10, 1)):
        once()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        once()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    results = []
    print(f"PyTorch {torch.__version__}, {args.threads} threads, median (10th percentile) in ms")
    print("| B | T | C | U | ours | PyTorch | ratio |")
    print("|--:|--:|--:|--:|-----:|--------:|------:|")
    for row in ours(args.repeats, args.threads):
        times = torchs(row, args.repeats)
        median, p10 = statistics.median(times), times[len(times) // 10]
        results.append({**row, "torch_median_ms": median, "torch_p10_ms": p10})
        print(
            f"| {row['b']} | {row['t']} | {row['c']} | {row['u']} "
            f"| {row['median_ms']:.2f} ({row['p10_ms']:.2f}) | {median:.2f} ({p10:.2f}) "
            f"| {median / row['median_ms']:.1f} ({p10 / row['p10_ms']:.1f}) |"
        )
    if args.json:
        run = {
            "made_by": "scripts/bench_ctc.py",
            "torch": torch.__version__,
            "machine": platform.processor() or platform.machine(),
            "threads": args.threads,
            "results": results,
        }
        args.json.write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
