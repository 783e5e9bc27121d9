#!/usr/bin/env python3
"""Makes tests/fixtures/parakeet: small random ParakeetForCTC models of Hugging Face's own code, as its
`save_pretrained` writes them, each with what it answers.

    pip install torch transformers
    python scripts/make_parakeet_goldens.py            writes tests/fixtures/parakeet/*

A case is a directory:

- `config.json`, `model.safetensors` (or shards and their index), and for one of them the processor's
  files, all written by transformers;
- `goldens.safetensors`: a padded batch (`features`, `frame_lens`), and of it
  `output_lens`, `logits` in evaluation, `nll` of each utterance and `grad.NAME`, the gradient of their sum
  over the number of labels, with the batch norms on their running statistics; the same in training
  on a batch without padding (`train.*`, Parakeet lets padding into its batch statistics), and the
  batch norms' buffers behind it (`train.after.NAME`); `subsampled`, the output frames of 1, 2, ... frames.
  No dropout anywhere. Integers are stored as f32.
- `provenance.json`.
"""

import argparse
import importlib.metadata
import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    ParakeetCTCConfig,
    ParakeetFeatureExtractor,
    ParakeetForCTC,
    ParakeetProcessor,
    ParakeetTokenizer,
)

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/fixtures/parakeet"
SEED = 5

# What differs between the cases: sizes, biases, input scale, shards, dtype of the file.
CASES = {
    "factor8": dict(
        encoder=dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                     num_mel_bins=16, subsampling_conv_channels=4),
        symbols=" abcde", lens=[83, 40, 9, 1], num_frames=88, shard="20KB", train=True, processor=True,
    ),
    "factor4": dict(
        encoder=dict(hidden_size=18, num_hidden_layers=1, num_attention_heads=3, intermediate_size=36,
                     num_mel_bins=20, subsampling_conv_channels=6, subsampling_factor=4, conv_kernel_size=5,
                     attention_bias=False, convolution_bias=False, scale_input=False),
        symbols="xy", lens=[50, 31], num_frames=50,
    ),
    "factor2": dict(
        encoder=dict(hidden_size=8, num_hidden_layers=3, num_attention_heads=1, intermediate_size=16,
                     num_mel_bins=10, subsampling_conv_channels=3, subsampling_factor=2, conv_kernel_size=31,
                     attention_bias=False),
        symbols="pqrs", lens=[33, 18, 24], num_frames=35, dtype=torch.bfloat16,
    ),
}

# Of the second batch only gradients around its batch statistics are kept, and the first and last ones.
IN_TRAINING = ["subsampling", "layers.0.conv", "layers.0.norm_conv", "ctc_head"]


def randomise(model, generator):
    """Weights of a size at which every part of the network matters to the logits."""
    def normal(tensor, std):
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * std)

    def uniform(tensor, low, high):
        tensor.copy_(torch.rand(tensor.shape, generator=generator) * (high - low) + low)

    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("running_var"):
                uniform(tensor, 0.5, 2.0)
            elif name.endswith("num_batches_tracked") or name.endswith("inv_freq"):
                pass
            elif "norm" in name and name.endswith(".weight"):
                uniform(tensor, 0.5, 1.5)
            elif tensor.dim() < 2 or "bias" in name:
                normal(tensor, 0.3)
            else:
                normal(tensor, tensor[0].numel() ** -0.5)


def processor(symbols, num_mels):
    """A processor whose tokens are characters."""
    vocabulary = {symbol: number for number, symbol in enumerate([*symbols, "<pad>"])}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
    characters.decoder = decoders.Fuse()
    tokenizer = ParakeetTokenizer(tokenizer_object=characters, pad_token="<pad>")
    extractor = ParakeetFeatureExtractor(feature_size=num_mels)
    return ParakeetProcessor(extractor, tokenizer, blank_token="<pad>", decoder_type="ctc")


def ctc(model, features, frame_lens, labels):
    """Output lengths, logits and each utterance's loss; the gradient of their sum over the labels."""
    mask = torch.arange(features.shape[1])[None, :] < frame_lens[:, None]
    model.zero_grad()
    logits = model(input_features=features, attention_mask=mask).logits
    output_lens = model._get_subsampling_output_length(frame_lens).long()
    label_lens = torch.tensor([len(row) for row in labels])
    nll = torch.nn.functional.ctc_loss(
        logits.log_softmax(-1).transpose(0, 1), torch.tensor(sum(labels, [])), output_lens, label_lens,
        blank=model.config.pad_token_id, reduction="none",
    )
    (nll.sum() / label_lens.sum()).backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    return output_lens, logits.detach(), nll.detach(), gradients


def make(name, case, out):
    generator = torch.Generator().manual_seed(SEED)
    symbols = case["symbols"]
    no_dropout = dict.fromkeys(
        ["dropout", "dropout_positions", "layerdrop", "activation_dropout", "attention_dropout"], 0.0)
    config = ParakeetCTCConfig(
        vocab_size=len(symbols) + 1, pad_token_id=len(symbols), encoder_config={**case["encoder"], **no_dropout})
    model = ParakeetForCTC(config)
    randomise(model, generator)
    dtype = case.get("dtype", torch.float32)
    model.to(dtype).save_pretrained(out, max_shard_size=case.get("shard", "1GB"))
    # What the file holds, computed in f32.
    model = model.to(torch.float32).eval()
    num_mels = case["encoder"]["num_mel_bins"]
    if case.get("processor"):
        processor(symbols, num_mels).save_pretrained(out)

    frame_lens = torch.tensor(case["lens"])
    features = torch.randn((len(frame_lens), case["num_frames"], num_mels), generator=generator)
    features *= (torch.arange(case["num_frames"])[None, :] < frame_lens[:, None])[..., None]
    labels = [[i % len(symbols) for i in range(b, b + min(3, int(n) // 16))] for b, n in enumerate(frame_lens)]
    output_lens, logits, nll, gradients = ctc(model, features, frame_lens, labels)
    goldens = {
        "subsampled": model._get_subsampling_output_length(torch.arange(1, 400)),
        "features": features, "frame_lens": frame_lens, "output_lens": output_lens, "logits": logits, "nll": nll,
        "labels": torch.tensor(sum(labels, [])), "label_lens": torch.tensor([len(row) for row in labels]),
        **{f"grad.{name}": gradient for name, gradient in gradients.items()},
    }
    if case.get("train"):
        model.train()
        features = features[:2, :40].clone()
        _, logits, nll, gradients = ctc(model, features, torch.tensor([40, 40]), labels[:2])
        goldens |= {
            "train.features": features, "train.logits": logits, "train.nll": nll,
            **{f"train.grad.{name}": gradient for name, gradient in gradients.items()
               if any(part in name for part in IN_TRAINING)},
            **{f"train.after.{name}": buffer.clone()
               for name, buffer in model.named_buffers() if "running" in name},
        }
    save_file({name: tensor.float().contiguous() for name, tensor in goldens.items()}, out / "goldens.safetensors")
    packages = {package: importlib.metadata.version(package) for package in ["torch", "transformers", "tokenizers"]}
    provenance = {"made_by": "scripts/make_parakeet_goldens.py", "case": name, "seed": SEED, **packages}
    (out / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, case in CASES.items():
        out = arguments.out / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        make(name, case, out)
    for path in arguments.out.rglob("*.safetensors"):
        path.chmod(0o644)
    total = sum(path.stat().st_size for path in arguments.out.rglob("*") if path.is_file())
    print(f"{arguments.out}: {total} bytes")


if __name__ == "__main__":
    main()
