#!/usr/bin/env python3
"""Log-mel extractors here and elsewhere, one thread, one machine, one run: audio seconds a second.

    python3 scripts/bench_features.py [--repeats 20] [--ours BENCH] [--json OUT]

Ours is `cargo bench --bench features`, which checks before it times; --ours names one built elsewhere.
The others are what is installed of torch, torchaudio, kaldi-native-fbank, transformers and lhotse:
eight utterances of 15 s, one after the other, as an extractor in a data loader works. The median is
over repeats; the best is there because a shared machine's median is not the extractor's.
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

ROOT = Path(__file__).resolve().parent.parent
UTTERANCES, SECONDS, RATE = 8, 15, 16_000
for variable in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]:
    os.environ[variable] = "1"

import numpy as np  # noqa: E402: after the number of threads is set


def ours(args):
    """The Rust bench's lines."""
    cargo = ["cargo", "bench", "-q", "--bench", "features", "--"]
    words = [str(args.repeats), str(UTTERANCES), str(SECONDS)]
    command = [*([args.ours] if args.ours else cargo), *words]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in out.splitlines():
        row = json.loads(line)
        name = f"ours, {row['preset']}, {row['num_mels']} bands"
        yield name, row["audio_s_per_s"], row["best_audio_s_per_s"]


def others():
    """(name, function from samples to features, what turns an array into samples) of what is installed.
    Where an extractor takes Python lists only, making the list is not its time."""
    as_it_is = lambda x: x  # noqa: E731
    try:
        import torch
        import torchaudio
        from torchaudio.compliance import kaldi

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        mel = torchaudio.transforms.MelSpectrogram(n_fft=512, win_length=400, hop_length=160, n_mels=80)
        yield "torchaudio MelSpectrogram and log, 80", lambda x: (mel(x) + 2**-24).log(), torch.from_numpy
        fbank = {"num_mel_bins": 80, "dither": 0.0}
        yield "torchaudio compliance fbank, 80", lambda x: kaldi.fbank(x[None], **fbank), torch.from_numpy
    except ImportError as error:
        print(f"without torchaudio: {error}")
    try:
        import kaldi_native_fbank

        def native(num_bins):
            options = kaldi_native_fbank.FbankOptions()
            options.frame_opts.dither = 0.0
            options.mel_opts.num_bins = num_bins

            def run(x):
                extractor = kaldi_native_fbank.OnlineFbank(options)
                extractor.accept_waveform(RATE, x)
                extractor.input_finished()
                return [extractor.get_frame(i) for i in range(extractor.num_frames_ready)]

            return run

        yield "kaldi-native-fbank, 80", native(80), np.ndarray.tolist
    except ImportError as error:
        print(f"without kaldi-native-fbank: {error}")
    try:
        from transformers import ParakeetFeatureExtractor, WhisperFeatureExtractor

        parakeet, whisper = ParakeetFeatureExtractor(), WhisperFeatureExtractor()
        yield (
            "transformers Parakeet, 80",
            lambda x: parakeet(x, sampling_rate=RATE, return_tensors="pt"),
            as_it_is,
        )
        yield (
            "transformers Whisper, 80",
            lambda x: whisper(x, sampling_rate=RATE, padding="do_not_pad", return_tensors="np"),
            as_it_is,
        )
    except ImportError as error:
        print(f"without transformers: {error}")
    try:
        from lhotse.features.kaldi.extractors import Fbank

        fbank_of_lhotse = Fbank()
        yield "lhotse Fbank, 80", lambda x: fbank_of_lhotse.extract(x, RATE), as_it_is
    except ImportError as error:
        print(f"without lhotse: {error}")


def timed(function, prepare, repeats):
    """Median and best audio seconds a second."""
    rng = np.random.default_rng(1)
    noise = 0.1 * rng.standard_normal((UTTERANCES, SECONDS * RATE))
    utterances = [prepare(x) for x in noise.astype(np.float32)]
    times_s = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        for samples in utterances:
            function(samples)
        times_s.append(time.perf_counter() - start)
    times_s = times_s[2:]
    audio_s = UTTERANCES * SECONDS
    return audio_s / statistics.median(times_s), audio_s / min(times_s)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--ours", help="the Rust bench's binary")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [*ours(args), *((name, *timed(run, prepare, args.repeats)) for name, run, prepare in others())]
    print(f"{'':44} {'median':>8} {'best':>8}   audio s/s, one thread")
    for name, median, best in rows:
        print(f"{name:44} {median:8.0f} {best:8.0f}")
    if args.json:
        machine = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        made = {"date": datetime.date.today().isoformat(), **machine, "repeats": args.repeats}
        keys = ["name", "median_audio_s_per_s", "best_audio_s_per_s"]
        made["rows"] = [dict(zip(keys, row)) for row in rows]
        args.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
