#!/usr/bin/env python3
"""One training step and one recognition here and in PyTorch: the same weights, batch, machine and run.

    pip install torch transformers
    python3 scripts/bench_step.py [--device cpu] [--model digits] [--batch 8] [--seconds 3] [--json OUT]

`ParakeetForCTC` of Hugging Face is made with random weights and saved; ours (`cargo bench --bench step`,
or the program that --ours names) starts from that directory. First the losses of the first steps of AdamW
are compared, then the steps after them are timed, each from features in host memory to the loss read
back: forward, CTC, backward, clipping, update. On a CPU ours also runs as `asr-train` does with
`optim.accumulate`: the batch in parts side by side, a share of the threads each. No dropout on either side. PyTorch runs in f32, on CUDA
with TF32 products as well as under bf16 autocast (--autocast) and compiled (--compile) if asked.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# hidden size, layers, heads, subsampling factor and channels, taps, symbols and the blank.
MODELS = {
    "digits": (96, 4, 4, 4, 32, 9, 17),
    "small": (176, 16, 4, 8, 256, 9, 1025),
    "large": (512, 17, 8, 8, 256, 9, 1025),
}
CHECKED, LOSS_TOLERANCE = 5, 2e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--model", choices=MODELS, default="digits")
    parser.add_argument("--batch", type=int, default=8, help="utterances")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each")
    parser.add_argument("--labels", type=int, default=20, help="of each")
    parser.add_argument("--timed", type=int, default=20, help="steps")
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    parser.add_argument("--ours", help="the program of `cargo bench --bench step`, built elsewhere")
    parser.add_argument("--autocast", action="store_true", help="PyTorch under bf16 autocast besides")
    parser.add_argument("--compile", action="store_true", help="PyTorch compiled besides")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    for variable in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"]:
        os.environ[variable] = str(arguments.threads)
    with tempfile.TemporaryDirectory() as scratch:
        rows = run(arguments, pathlib.Path(scratch))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def run(arguments, scratch):
    import torch

    torch.set_num_threads(arguments.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    make = model_of(arguments, scratch)
    features, labels = batch_of(arguments, scratch, make())
    where = torch.cuda.get_device_name() if arguments.device.startswith("cuda") else platform.processor()
    rows = {
        "date": datetime.date.today().isoformat(), "device": where, "torch": torch.__version__,
        "model": arguments.model, "batch": [arguments.batch, arguments.seconds, arguments.labels],
        "threads": arguments.threads,
    }
    # In turns on a shared machine: ours, theirs, ours.
    rows["ours"] = [ours(arguments, scratch)]
    names = ["ours"]
    if arguments.device == "cpu":
        names.append(f"ours in {arguments.threads} parts")
        rows[names[-1]] = [ours(arguments, scratch, arguments.threads)]
    kinds = [("torch", False, False)]
    if arguments.autocast:
        kinds.append(("torch bf16", True, False))
    if arguments.compile:
        kinds += [("torch compiled", False, True)] + [("torch bf16 compiled", True, True)] * arguments.autocast
    for name, autocast, compiled in kinds:
        rows[name] = theirs(arguments, make(), features, labels, autocast, compiled)
    for name, split in zip(names, [1, arguments.threads]):
        rows[name].append(ours(arguments, scratch, split))
    for mine in rows["ours"]:
        pairs = list(zip(mine["losses"], rows["torch"]["losses"], strict=True))
        worst = max(abs(a - b) / abs(b) for a, b in pairs)
        # TF32 products have ten bits.
        allowed = LOSS_TOLERANCE if arguments.device == "cpu" else 20 * LOSS_TOLERANCE
        assert worst < allowed, f"losses differ: {pairs}"
    assert rows["ours"][0]["parameters"] == rows["torch"]["parameters"]
    print(f"{rows['ours'][0]['parameters'] / 1e6:.2f} M parameters, {arguments.batch} x {arguments.seconds:g} s, {where}")
    print(f"losses of {CHECKED} steps agree within {worst:.1e}: {pairs[0][0]:.4f} to {pairs[-1][0]:.4f}")
    audio_s = arguments.batch * arguments.seconds
    for name in [*names, *(name for name, *_ in kinds)]:
        found = rows[name] if isinstance(rows[name], list) else [rows[name]]
        # Parts are what a step has.
        for kind in ["step_ms"] + ["recognise_ms"] * ("parts" not in name):
            times = [ms for part in found for ms in part[kind]]
            median = statistics.median(times)
            print(f"{name:20} {kind[:-3]:10} median {median:8.2f} ms, best {min(times):8.2f}, worst {max(times):8.2f}; "
                  f"{audio_s / median * 1e3:8.0f} audio s/s; first step {found[0]['first_step_s']:.1f} s")
    return rows


def model_of(arguments, scratch):
    """Writes the directory, and returns what makes the model from it."""
    import torch
    from transformers import ParakeetCTCConfig, ParakeetForCTC

    hidden, layers, heads, factor, channels, taps, classes = MODELS[arguments.model]
    no_dropout = dict.fromkeys(
        ["dropout", "dropout_positions", "layerdrop", "activation_dropout", "attention_dropout"], 0.0)
    encoder = dict(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden,
        num_mel_bins=80, subsampling_factor=factor, subsampling_conv_channels=channels, conv_kernel_size=taps)
    torch.manual_seed(1)
    config = ParakeetCTCConfig(vocab_size=classes, pad_token_id=classes - 1, encoder_config={**encoder, **no_dropout})
    ParakeetForCTC(config).save_pretrained(scratch)
    symbols = [chr(0x4E00 + number) for number in range(classes - 1)]
    (scratch / "tokens.txt").write_text("\n".join(["asr-tokens 1", *symbols]) + "\n")
    return lambda: ParakeetForCTC.from_pretrained(scratch).to(arguments.device)


def batch_of(arguments, scratch, model):
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(2)
    num_mels = model.config.encoder_config.num_mel_bins
    features = torch.randn(arguments.batch, round(arguments.seconds * 100), num_mels)
    labels = torch.randint(0, model.config.vocab_size - 1, (arguments.batch, arguments.labels))
    save_file({"features": features, "labels": labels}, scratch / "batch.safetensors")
    return features, labels


def ours(arguments, scratch, split=1):
    cargo = ["cargo", "bench", "-q", "--bench", "step", "--"]
    device = "cuda:0" if arguments.device.startswith("cuda") else "cpu"
    words = [scratch, f"device={device}", f"checked={CHECKED}", f"timed={arguments.timed}", f"split={split}"]
    command = [str(word) for word in [*([arguments.ours] if arguments.ours else cargo), *words]]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)


def theirs(arguments, model, features, labels, autocast, compiled):
    import torch

    blank, (count, num_labels) = model.config.pad_token_id, labels.shape
    fused = arguments.device != "cpu"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.98), 1e-8, weight_decay=0.0, fused=fused)
    forward = torch.compile(model) if compiled else model
    cast = torch.autocast(arguments.device.split(":")[0], torch.bfloat16, enabled=autocast)

    def logits_of(x):
        with cast:
            return forward(input_features=x, attention_mask=torch.ones(x.shape[:2], dtype=torch.long, device=x.device)).logits

    def step():
        model.train()
        optimizer.zero_grad(set_to_none=True)
        logits = logits_of(features.to(arguments.device)).float()
        lens = torch.full((count,), logits.shape[1])
        loss = torch.nn.functional.ctc_loss(
            logits.log_softmax(-1).transpose(0, 1), labels.to(arguments.device), lens,
            torch.full((count,), num_labels), blank=blank, reduction="sum") / labels.numel()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    def recognise():
        model.eval()
        with torch.no_grad():
            logits_of(features.to(arguments.device)).argmax(-1).cpu()

    def timed(work):
        work()
        times = []
        for _ in range(arguments.timed):
            start = time.perf_counter()
            work()
            times.append((time.perf_counter() - start) * 1e3)
        return times

    start = time.perf_counter()
    losses = [step()]
    first = time.perf_counter() - start
    losses += [step() for _ in range(CHECKED - 1)]
    # Ours counts the batch norms' running statistics.
    running = [b for name, b in model.named_buffers() if name.endswith(("running_mean", "running_var"))]
    parameters = sum(p.numel() for p in [*model.parameters(), *running])
    return {"parameters": parameters, "losses": losses, "first_step_s": first, "step_ms": timed(step), "recognise_ms": timed(recognise)}


if __name__ == "__main__":
    main()
