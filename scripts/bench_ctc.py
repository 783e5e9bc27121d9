#!/usr/bin/env python3
"""CTC here and elsewhere, on one machine in one run: loss and gradient with respect to logits.

    python3 scripts/bench_ctc.py [--repeats 200] [--threads 2] [--json OUT]
    python3 scripts/bench_ctc.py --device cuda [--ours BENCH] [--burn BENCH] [--json OUT]

Ours is `cargo bench -p asr-kernels`, which checks against the f64 reference before it times;
PyTorch's is `log_softmax + ctc_loss + backward`, natively and, on CUDA, through cuDNN where that
takes the shape; Burn's own comes from `cargo bench -p asr-ctc`, in one process with ours. --ours
and --burn name benches built elsewhere (`cargo bench --no-run`). Needs PyTorch.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent


def run_bench(command, package, bench, device, words, threads):
    """The JSON lines of a bench: of the binary `command`, or of cargo's."""
    features = ["--features", device] if device != "cpu" else []
    cargo = ["cargo", "bench", "-q", "-p", package, "--bench", bench, *features, "--"]
    out = subprocess.run(
        [*([command] if command else cargo), *words],
        cwd=ROOT,
        env={**os.environ, "RAYON_NUM_THREADS": str(threads)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def ours(args):
    """(shape, median ms, 10th percentile ms) of the Rust bench."""
    if args.device == "cpu":
        rows = run_bench(args.ours, "asr-kernels", "ctc", "cpu", ["cpu", str(args.repeats)], args.threads)
        return [(row, row["median_ms"], row["p10_ms"]) for row in rows if row["work"] == "nll_and_grad"]
    words = [args.device, str(args.repeats), "only=table"]
    rows = run_bench(args.ours, "asr-kernels", "ctc", args.device, words, args.threads)
    return [(row, row["sync_ms"], row["sync_p10_ms"]) for row in rows if row.get("section") == "table"]


def torchs(shape, repeats, device, through_cudnn=False):
    """Sorted milliseconds of PyTorch's loss and gradient; none where cuDNN refuses the shape."""
    torch.manual_seed(7)
    b, t, c, u = (shape[k] for k in "btcu")
    logits = torch.randn(t, b, c, device=device, requires_grad=True)
    labels = torch.randint(1, c, (b, u))
    frame_lens, label_lens = torch.full((b,), t), torch.full((b,), u)
    if through_cudnn:
        # cuDNN's path: 32-bit lengths and concatenated targets on the host, blank 0, at most 256 labels.
        if u > 256:
            return []
        labels, frame_lens, label_lens = (x.int() for x in (labels.reshape(-1), frame_lens, label_lens))
    else:
        labels, frame_lens, label_lens = (x.to(device) for x in (labels, frame_lens, label_lens))
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def once():
        logits.grad = None
        log_probs = logits.log_softmax(-1)
        loss = torch.nn.functional.ctc_loss(log_probs, labels, frame_lens, label_lens, reduction="sum")
        loss.backward()
        wait()

    for _ in range(max(repeats // 10, 3)):
        once()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        once()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


def burns(args):
    """Burn's milliseconds by (t, b, c, u), and what changing targets cost both."""
    rows = run_bench(args.burn, "asr-ctc", "against_burn", args.device, [args.device, "20"], args.threads)
    of_shape = {
        (row["t"], row["n"], row["c"], row["u"]): row["median_ms"]
        for row in rows
        if row["work"] == "nll_and_grad" and row["who"] == "burn"
    }
    return of_shape, rows


def cell(times, mine):
    if not times:
        return "- |", None
    median = statistics.median(times)
    return f"{median:.2f} ({median / mine:.1f}x) |", median


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ours", help="the bench of asr-kernels, if it was built elsewhere")
    parser.add_argument("--burn", help="the bench of asr-ctc, if it was built elsewhere")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    machine = torch.cuda.get_device_name() if args.device == "cuda" else platform.processor() or platform.machine()
    mine = ours(args)
    of_burn, burn_rows = burns(args) if args.burn else ({}, [])
    results = []
    print(f"PyTorch {torch.__version__}, {machine}, {args.threads} threads; medians in ms (times ours)")
    print("| T | B | C | U | ours | PyTorch | cuDNN | Burn |")
    print("|--:|--:|--:|--:|-----:|--------:|------:|-----:|")
    for row, median, p10 in mine:
        native, native_median = cell(torchs(row, args.repeats, args.device), median)
        cudnn, cudnn_median = "- |", None
        if args.device == "cuda":
            cudnn, cudnn_median = cell(torchs(row, args.repeats, "cuda", through_cudnn=True), median)
        known = of_burn.get((row["t"], row["b"], row["c"], row["u"]))
        burn, burn_median = cell([known] if known else [], median)
        print(f"| {row['t']} | {row['b']} | {row['c']} | {row['u']} | {median:.3f} ({p10:.3f}) | {native} {cudnn} {burn}")
        results.append({**row, "torch_ms": native_median, "cudnn_ms": cudnn_median, "burn_ms": burn_median})
    if args.json:
        run = {
            "made_by": "scripts/bench_ctc.py",
            "date": datetime.date.today().isoformat(),
            "torch": torch.__version__,
            "machine": machine,
            "threads": args.threads,
            "results": results,
            "against_burn": burn_rows,
        }
        args.json.write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
