#!/usr/bin/env python3
"""Makes tests/fixtures/recurrent: small bidirectional `torch.nn.LSTM` and `torch.nn.GRU`, and what they answer.

    pip install torch safetensors
    python scripts/make_recurrent_goldens.py           writes tests/fixtures/recurrent/*

`lstm.safetensors` and `gru.safetensors` hold a padded batch (`input`, `lens`), the parameters by PyTorch's names,
`output` of two layers behind `pack_padded_sequence`, and the gradients of the sum of `output * weights`
(`grad.input`, `grad.NAME`). Lengths are stored as f32.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/fixtures/recurrent"
SEED = 5
WIDTH = 6
LENS = [8, 1, 5, 8]


def make(kind):
    torch.manual_seed(SEED)
    layers = kind(WIDTH, WIDTH // 2, num_layers=2, bidirectional=True, batch_first=True)
    with torch.no_grad():
        for parameter in layers.parameters():
            # Of a size at which every gate matters.
            parameter.mul_(2.0)
    lens = torch.tensor(LENS)
    frames = max(LENS) + 2
    given = torch.randn(len(LENS), frames, WIDTH).mul_(2.0).requires_grad_()
    weights = torch.randn(len(LENS), frames, WIDTH)
    packed = pack_padded_sequence(given, lens, batch_first=True, enforce_sorted=False)
    output, _ = pad_packed_sequence(layers(packed)[0], batch_first=True, total_length=frames)
    (output * weights).sum().backward()
    parameters = dict(layers.named_parameters())
    return {
        "input": given.detach(), "lens": lens, "weights": weights, "output": output.detach(), "grad.input": given.grad,
        **{name: parameter.detach() for name, parameter in parameters.items()},
        **{f"grad.{name}": parameter.grad for name, parameter in parameters.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    for kind in [torch.nn.LSTM, torch.nn.GRU]:
        path = out / f"{kind.__name__.lower()}.safetensors"
        save_file({name: tensor.float().contiguous() for name, tensor in make(kind).items()}, path)
        path.chmod(0o644)
    provenance = {"made_by": "scripts/make_recurrent_goldens.py", "seed": SEED, "torch": str(torch.__version__)}
    (out / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")
    total = sum(path.stat().st_size for path in out.iterdir())
    print(f"{out}: {total} bytes")


if __name__ == "__main__":
    main()
