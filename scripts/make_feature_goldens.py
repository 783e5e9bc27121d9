#!/usr/bin/env python3
"""Makes the golden log-mel vectors of tests/fixtures/features, each with its toolkit's own extractor.

    pip install torch torchaudio transformers librosa soundfile kaldi-native-fbank lhotse speechbrain
    pip install --no-deps espnet torch_complex humanfriendly typeguard
    python scripts/make_feature_goldens.py                     writes tests/fixtures/features/*.json
    python scripts/make_feature_goldens.py --audio A.flac ... --out DIR     the same of other recordings

signals.json holds the signals as integers and a scale, so that the tests need neither Python nor this
script; one file a configuration holds a few frames of each signal and the number of all.

`log_mel` is the toolkit's own code run in f64 wherever it lets itself be run so: in f32 it is off by up
to 0.3 where a band beside a loud tone falls silent, or where the mean that is taken off is all there
is. `f32_error` is that distance, over all frames. `toolkit` is the ordinary output, kept for the speech
and where there is no run in f64. `refused` is what the toolkit answers to a signal that it does not
take. No dither anywhere.
"""

import argparse
import contextlib
import importlib.metadata
import json
import pathlib
import warnings

import kaldi_native_fbank
import numpy as np
import soundfile
import torch
import torchaudio
from espnet2.asr.frontend.default import DefaultFrontend
from lhotse.features.kaldi.extractors import Fbank as LhotseFbank
from lhotse.features.kaldi.extractors import FbankConfig
from speechbrain.lobes.features import Fbank as SpeechbrainFbank
from speechbrain.processing.features import spectral_magnitude
from torchaudio.compliance import kaldi
from transformers import ParakeetFeatureExtractor, WhisperFeatureExtractor

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEECH = "data/digits/test/test-rms-001.flac"
RATE = 16_000
SEED = 7
PACKAGES = "torch torchaudio transformers librosa kaldi-native-fbank lhotse speechbrain espnet numpy"


def signals():
    """(name, integers, scale): the samples are their products."""
    rng = np.random.default_rng(SEED)
    t = np.arange(1_500) / RATE

    def pcm(x):
        return np.clip(np.round(np.asarray(x) * 32768), -32768, 32767), 2.0**-15

    impulse = np.zeros(1_100)
    impulse[777] = 0.99
    chirp = np.sin(2 * np.pi * (100 * t + 0.5 * 80_000 * t**2))
    speech, rate = soundfile.read(ROOT / SPEECH, start=6_000, frames=8_000)
    assert rate == RATE and speech.std() > 0.01
    yield "speech", *pcm(speech)
    yield "silence", *pcm(np.zeros(1_000))
    yield "dc", *pcm(np.full(1_000, 0.3))
    yield "impulse", *pcm(impulse)
    yield "square", *pcm(np.where(np.arange(1_200) // 40 % 2 == 0, 1.0, -1.0))
    yield "tiny_noise", np.round(rng.standard_normal(1_100) * 1e-6 * 2**36), 2.0**-36
    yield "noise", *pcm(0.3 * rng.standard_normal(1_200))
    yield "clipped", *pcm(3.0 * rng.standard_normal(1_100))
    yield "chirp", *pcm(0.8 * chirp)
    yield "tone", *pcm(0.5 * np.sin(2 * np.pi * 1_000 * t[:1_200]))
    yield "loud_then_silent", *pcm(np.concatenate([rng.uniform(-1, 1, 600), np.zeros(1_000)]))
    noise = 0.3 * rng.standard_normal(800)
    for length in [0, 1, 79, 80, 159, 160, 161, 200, 201, 255, 257, 399, 400, 401, 559, 560, 561]:
        yield f"length_{length}", *pcm(noise[:length])


@contextlib.contextmanager
def double():
    """New tensors, and so the toolkits' windows and filters, in f64."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def nemo(**options):
    extractor = ParakeetFeatureExtractor(**options)

    def raw(x, dtype):
        if len(x) < 2:
            extractor(x, sampling_rate=RATE, return_tensors="pt")
        single, extractor.mel_filters = extractor.mel_filters, extractor.mel_filters.to(dtype)
        x = torch.tensor(x, dtype=dtype)[None]
        x = torch.cat([x[:, :1], x[:, 1:] - extractor.preemphasis * x[:, :-1]], dim=1)
        features = extractor._torch_extract_fbank_features(x)[0].numpy()
        extractor.mel_filters = single
        return features[: x.shape[1] // extractor.hop_length]

    def precise(x):
        with double():
            return raw(x, torch.float64)

    def ordinary(x):
        inputs = extractor(x.astype(np.float32), sampling_rate=RATE, return_tensors="pt")
        num_frames = int(inputs.attention_mask.sum())
        features = raw(x, torch.float32)
        assert len(features) == num_frames
        return features

    def normalized(x):
        return extractor(x.astype(np.float32), sampling_rate=RATE, return_tensors="pt").input_features[0].numpy()

    return precise, ordinary, normalized


def compliance(**options):
    options = {"dither": 0.0, "energy_floor": 0.0, "sample_frequency": RATE, **options}

    def precise(x):
        with double():
            return kaldi.fbank(torch.tensor(x * 32768)[None], **options).numpy()

    def ordinary(x):
        return kaldi.fbank(torch.tensor(x * 32768, dtype=torch.float32)[None], **options).numpy()

    return precise, ordinary


def native_fbank(num_bins=23, snip_edges=True):
    """kaldi-native-fbank, which knows f32 only; in f64 the same by torchaudio."""

    def ordinary(x):
        options = kaldi_native_fbank.FbankOptions()
        options.frame_opts.dither = 0.0
        options.frame_opts.snip_edges = snip_edges
        options.mel_opts.num_bins = num_bins
        fbank = kaldi_native_fbank.OnlineFbank(options)
        fbank.accept_waveform(RATE, (x * 32768).astype(np.float32).tolist())
        fbank.input_finished()
        rows = [fbank.get_frame(i) for i in range(fbank.num_frames_ready)]
        return np.array(rows).reshape(-1, num_bins)

    return compliance(num_mel_bins=num_bins, snip_edges=snip_edges)[0], ordinary


def lhotse():
    def precise(x):
        with double():
            return LhotseFbank(FbankConfig()).extract(x, RATE)

    return precise, lambda x: LhotseFbank(FbankConfig()).extract(x.astype(np.float32), RATE)


def whisper(**options):
    extractor = WhisperFeatureExtractor(**options)

    def ordinary(x):
        inputs = extractor(x.astype(np.float32), sampling_rate=RATE, padding="do_not_pad", return_tensors="np")
        return inputs.input_features[0].T

    # Its numpy code, which rounds spectra to f32 and nothing else.
    return lambda x: extractor._np_extract_fbank_features([x], "cpu")[0].T, ordinary


def mel_spectrogram(**options):
    def features(x):
        mel = torchaudio.transforms.MelSpectrogram(**options)(x)
        return torchaudio.transforms.AmplitudeToDB()(mel).numpy().T

    def precise(x):
        with double():
            return features(torch.tensor(x))

    return precise, lambda x: features(torch.tensor(x, dtype=torch.float32))


def espnet(**options):
    frontend = DefaultFrontend(**options)

    def ordinary(x):
        features, lens = frontend(torch.tensor(x, dtype=torch.float32)[None], torch.tensor([len(x)]))
        assert features.shape[1] == lens[0]
        return features[0].numpy()

    def precise(x):
        # Its transform converts to f32 by itself; this is its call, and its own mel layer.
        stft = frontend.stft
        window = torch.hann_window(stft.win_length, dtype=torch.float64)
        spectrum = torch.stft(
            torch.tensor(x), stft.n_fft, stft.hop_length, stft.win_length, window, stft.center,
            normalized=stft.normalized, onesided=stft.onesided, return_complex=True,
        )  # fmt: skip
        power = spectrum.real**2 + spectrum.imag**2
        return frontend.logmel.double()(power.T[None])[0][0].numpy()

    def single(x):
        frontend.logmel.float()
        return ordinary(x)

    return precise, single


def speechbrain(**options):
    def ordinary(x):
        fbank = SpeechbrainFbank(**options)
        return fbank(torch.tensor(x, dtype=torch.float32)[None])[0].numpy()

    def precise(x):
        with double():
            fbank = SpeechbrainFbank(**options)
            magnitude = spectral_magnitude(fbank.compute_STFT(torch.tensor(x)[None]))
            return fbank.compute_fbanks(magnitude)[0].numpy()

    return precise, ordinary


# Name, settings, toolkit, extractors, and whether every signal is kept or a few.
CONFIGURATIONS = [
    ("nemo", 'preset = "nemo"', "transformers.ParakeetFeatureExtractor", nemo(), True),
    ("nemo_128", "num_mels = 128", "transformers.ParakeetFeatureExtractor", nemo(feature_size=128), False),
    ("kaldi", 'preset = "kaldi"', "kaldi_native_fbank.OnlineFbank", native_fbank(), True),
    (
        "kaldi_80_rounded",
        'preset = "kaldi"\nnum_mels = 80\nframing = "rounded"',
        "kaldi_native_fbank.OnlineFbank",
        native_fbank(80, False),
        True,
    ),
    (
        "wenet",
        'preset = "wenet"',
        "torchaudio.compliance.kaldi.fbank as wenet/dataset/processor.py calls it",
        compliance(num_mel_bins=80, frame_length=25, frame_shift=10),
        True,
    ),
    (
        "kaldi_hamming_magnitude",
        'preset = "kaldi"\nwindow = "hamming"\nspectrum = "magnitude"\nremove_dc = false\npreemphasis = 0.0',
        "torchaudio.compliance.kaldi.fbank",
        compliance(
            window_type="hamming", use_power=False, remove_dc_offset=False, preemphasis_coefficient=0.0
        ),
        False,
    ),
    ("lhotse", 'preset = "lhotse"', "lhotse.Fbank", lhotse(), True),
    ("whisper", 'preset = "whisper"', "transformers.WhisperFeatureExtractor", whisper(), True),
    (
        "whisper_128",
        'preset = "whisper"\nnum_mels = 128',
        "transformers.WhisperFeatureExtractor",
        whisper(feature_size=128),
        False,
    ),
    (
        "torchaudio",
        'preset = "torchaudio"',
        "torchaudio.transforms.MelSpectrogram and AmplitudeToDB",
        mel_spectrogram(),
        True,
    ),
    (
        "torchaudio_slaney",
        'preset = "torchaudio"\nnum_mels = 80\nhop_ms = 10.0\nmel_scale = "slaney"\nmel_norm = "slaney"',
        "torchaudio.transforms.MelSpectrogram and AmplitudeToDB",
        mel_spectrogram(n_mels=80, hop_length=160, mel_scale="slaney", norm="slaney"),
        False,
    ),
    ("espnet", 'preset = "espnet"', "espnet2 DefaultFrontend", espnet(), True),
    (
        "espnet_400_160",
        'preset = "espnet"\nwindow_ms = 25.0\nhop_ms = 10.0',
        "espnet2 DefaultFrontend",
        espnet(win_length=400, hop_length=160),
        False,
    ),
    ("speechbrain", 'preset = "speechbrain"', "speechbrain.lobes.features.Fbank", speechbrain(), True),
    (
        "speechbrain_80",
        'preset = "speechbrain"\nn_fft = 512\nnum_mels = 80',
        "speechbrain.lobes.features.Fbank",
        speechbrain(n_fft=512, n_mels=80),
        False,
    ),
]
FEW = ["speech", "silence", "impulse", "chirp", "length_401"]


def attempt(extractor, samples):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(extractor(samples)), None
    except Exception as error:  # noqa: BLE001: whatever a toolkit answers is its answer
        return None, f"{type(error).__name__}: {error}".splitlines()[0][:100]


def rounded(rows):
    return [[round(float(x), 5) for x in row] for row in rows]


def case(name, is_speech, samples, precise, ordinary, normalized):
    """One signal through one configuration."""
    toolkit, refused = attempt(ordinary, samples)
    if refused is None and not np.isfinite(toolkit).all():
        toolkit, refused = None, "not finite"
    if refused is not None:
        return {"name": name, "refused": refused}
    num_frames = len(toolkit)
    exact, _ = attempt(precise, samples)
    if exact is not None and exact.shape != toolkit.shape:
        exact = None
    frames = {0, num_frames // 2, num_frames - 1}
    if name.startswith("length"):
        frames = {num_frames - 1}
    if is_speech:
        frames |= set(range(0, num_frames, 12))
    frames = sorted(frames & set(range(num_frames)))
    made = {"name": name, "num_frames": num_frames, "frames": frames}
    if exact is not None:
        made["log_mel"] = rounded(exact[frames])
        made["f32_error"] = float(f"{np.abs(exact - toolkit).max(initial=0):.2g}")
    if exact is None or is_speech:
        made["toolkit"] = rounded(toolkit[frames])
    # It normalises in f32 only. A band that is nearly constant is divided by nearly nothing: together
    # with its errors that is nothing to agree with.
    is_sound = exact is not None and num_frames > 1 and made["f32_error"] < 1e-4
    if normalized and is_sound and exact.std(axis=0).min() > 0.02:
        made["normalized"] = rounded(normalized(samples)[frames])
    return made


def write(path, head, key, rows):
    """One row a line."""
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    path.write_text(f"{json.dumps(head)[:-1]}, {json.dumps(key)}: [\n{lines}\n]}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/fixtures/features")
    parser.add_argument("--audio", type=pathlib.Path, nargs="*", help="recordings instead of the signals")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.audio:
        made = [(p.stem, soundfile.read(p, dtype="int16")[0].astype(float), 2.0**-15) for p in args.audio]
    else:
        made = list(signals())
    versions = {package: importlib.metadata.version(package) for package in PACKAGES.split()}
    source = [str(p) for p in args.audio] if args.audio else f"seed {SEED}; speech: {SPEECH}, 6000 to 14000"
    head = {"made_by": "scripts/make_feature_goldens.py", "source": source}
    rows = [{"name": name, "scale": scale, "samples": x.astype(int).tolist()} for name, x, scale in made]
    write(args.out / "signals.json", head, "signals", rows)
    for name, settings, toolkit, (precise, ordinary, *normalized), is_whole in CONFIGURATIONS:
        kept = [s for s in made if is_whole or args.audio or s[0] in FEW]
        cases = [
            case(n, n == "speech" or bool(args.audio), x * scale, precise, ordinary, *(normalized or [None]))
            for n, x, scale in kept
        ]
        head = {
            "made_by": "scripts/make_feature_goldens.py",
            "toolkit": toolkit,
            "versions": versions,
            "settings": settings,
        }
        write(args.out / f"{name}.json", head, "cases", cases)
        refused = [f"{c['name']} ({c['refused']})" for c in cases if "refused" in c]
        errors = {c["name"]: c["f32_error"] for c in cases if c.get("f32_error", 0) > 1e-4}
        print(f"{name}: f32 is off by more than 1e-4: {errors}; refused: {refused}")


if __name__ == "__main__":
    main()
