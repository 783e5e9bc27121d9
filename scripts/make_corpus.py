#!/usr/bin/env python3
"""Make, or check, the bundled corpus of connected digits from Debian's speech synthesisers.

    python3 scripts/make_corpus.py data/digits --seed 1
    python3 scripts/make_corpus.py --check data/digits

Debian packages: flite festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts sox flac.
The same seed and the same package versions give the same bytes; only Python's standard library
is used. Every random draw comes from a generator seeded by (seed, purpose), so that adding an
utterance to one split leaves the others as they were.
"""

import argparse
import array
import collections
import csv
import dataclasses
import itertools
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLE_RATE_HZ = 16_000
WORDS = "zero oh one two three four five six seven eight nine".split()
PROGRAMS = ("flite", "festival", "sox", "flac")
PACKAGES = "flite festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts sox flac"
SPLITS = ("train", "dev", "test")

# Utterances of one to seven words: short ones dominate, since they are the easiest to align.
LENGTH_WEIGHTS = {1: 3, 2: 5, 3: 8, 4: 7, 5: 4, 6: 2, 7: 2}
# Every run of three digits belongs to one split only, so no longer run is shared either.
TRIGRAM_SHARE = {"train": 0.62, "dev": 0.13, "test": 0.25}
PAUSE_PROBABILITY = 0.15  # of a comma between two words of an utterance of four or more
EDGE_SILENCE_S = (0.05, 0.30)
PEAK_DBFS = (-20.0, -6.0)
NOISE_PROBABILITY = 0.2
NOISE_SNR_DB = (28.0, 45.0)
TRIM_BELOW_PEAK_DB = 40.0  # the diphone voices have a floor of -45 dB, and awb an "f" of -38 dB
TRIM_MARGIN_S = 0.04
FRAME_LEN = SAMPLE_RATE_HZ // 100
# Samples keep as many bits as put rounding this far below their block, so that half as much speech
# again fits the same bytes; a FLAC block stores no low bits that are zero in all of it.
BLOCK_LEN = 512
ROUNDING_BELOW_BLOCK_DB = 45.0


@dataclasses.dataclass(frozen=True)
class Voice:
    """A synthesiser's voice, the ranges its parameters are drawn from, and its utterances.

    `speed` resamples, which moves pitch and formants together and so stands for a longer or
    shorter vocal tract; the duration stretch is corrected for it, so it does not change the rate.
    """

    name: str
    engine: str
    person: str  # two voices of one person must never straddle the held-out border
    stretch: tuple[float, float]
    f0_mean_hz: tuple[float, float] | None
    speed: tuple[float, float]
    utterances: dict[str, int]


VOICES = (
    Voice("kal16", "flite", "kal", (1.0, 1.5), (85, 130), (0.90, 1.15), {"train": 90, "dev": 10}),
    Voice("awb", "flite", "awb", (0.85, 1.25), (100, 150), (0.90, 1.12), {"train": 115, "dev": 10}),
    Voice("slt", "flite", "slt", (0.95, 1.4), (140, 200), (0.86, 1.08), {"train": 90, "dev": 10}),
    Voice("kal_diphone", "festival", "kal", (1.0, 1.5), (85, 130), (0.90, 1.15), {"train": 80, "dev": 10}),
    Voice("ked_diphone", "festival", "ked", (1.0, 1.5), (85, 130), (0.90, 1.15), {"train": 115, "dev": 10}),
    Voice("cmu_us_slt_arctic_hts", "festival", "slt", (0.95, 1.4), None, (0.84, 1.08), {"train": 80, "dev": 10}),
    # Held out: heard in test only. flite's rms ignores the pitch setting, hence the small speeds.
    Voice("rms", "flite", "rms", (0.80, 1.2), None, (0.96, 1.04), {"test": 120}),
)


@dataclasses.dataclass
class Utterance:
    """One planned utterance: what is said, by which voice, and every parameter drawn for it."""

    id: str
    split: str
    voice: Voice
    words: list[str]
    prompt: str
    stretch: float
    f0_mean_hz: float | None
    speed: float
    peak_dbfs: float
    snr_db: float | None

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def engine_stretch(self) -> float:
        return self.stretch * self.speed


def rng_for(seed: int, *purpose: str) -> random.Random:
    # A string seed goes through SHA-512, so streams of different purposes are independent.
    return random.Random("/".join((str(seed), *purpose)))


# --- what is said -----------------------------------------------------------------------------


def partition_trigrams(seed: int) -> dict[str, set[tuple[str, ...]]]:
    trigrams = list(itertools.product(WORDS, repeat=3))
    rng_for(seed, "trigrams").shuffle(trigrams)
    allowed, start = {}, 0
    for split in SPLITS:
        end = start + round(TRIGRAM_SHARE[split] * len(trigrams))
        allowed[split] = set(trigrams[start:end] if split != SPLITS[-1] else trigrams[start:])
        start = end
    return allowed


class Prompter:
    """Draws digit strings: all trigrams from the split's share, rare digit pairs first."""

    def __init__(self, seed: int, split: str, allowed: set[tuple[str, ...]]):
        self.rng = rng_for(seed, "words", split)
        self.allowed = allowed
        self.word_counts: collections.Counter = collections.Counter()
        self.pair_counts: collections.Counter = collections.Counter()
        self.voice_counts: collections.Counter = collections.Counter()
        self.taken: set[tuple[str, ...]] = set()

    def draw(self, voice: str, length: int) -> list[str]:
        while True:
            words = self._walk(voice, length)
            # Strings of three or more are said once; there are too few shorter ones for that.
            if words and not (length >= 3 and tuple(words) in self.taken):
                break
        self.taken.add(tuple(words))
        self.word_counts.update(words)
        for pair in itertools.pairwise(words):
            self.pair_counts[pair] += 1
            self.voice_counts[voice, pair] += 1
        if length == 1:
            self.voice_counts[voice, words[0]] += 1
        return words

    def _walk(self, voice: str, length: int) -> list[str] | None:
        rng = self.rng
        if length == 1:
            return [min(WORDS, key=lambda w: (self.voice_counts[voice, w], self.word_counts[w], rng.random()))]

        def rarity(pair):
            return (self.pair_counts[pair], self.voice_counts[voice, pair], rng.random())

        pairs = list(itertools.product(WORDS, repeat=2))
        # Some slack in the choice, or a pair without a permitted continuation would block the walk.
        words = list(rng.choice(sorted(pairs, key=rarity)[:6]))
        while len(words) < length:
            open_words = [w for w in WORDS if (*words[-2:], w) in self.allowed]
            if not open_words:
                return None
            words.append(min(open_words, key=lambda w: rarity((words[-1], w))))
        return words


def plan(seed: int) -> list[Utterance]:
    allowed = partition_trigrams(seed)
    utterances = []
    for split in SPLITS:
        prompter = Prompter(seed, split, allowed[split])
        # Voices take turns, so that each sees rare and common pairs alike.
        turns = sorted(
            ((n + 0.5) / voice.utterances[split], index, n)
            for index, voice in enumerate(VOICES)
            for n in range(voice.utterances.get(split, 0))
        )
        lengths = list(LENGTH_WEIGHTS)
        for _, voice_index, n in turns:
            voice = VOICES[voice_index]
            uid = f"{split}-{voice.name}-{n + 1:03d}"
            rng = rng_for(seed, "voice", uid)
            length = rng.choices(lengths, weights=LENGTH_WEIGHTS.values())[0]
            words = prompter.draw(voice.name, length)
            prompt = words[0]
            for word in words[1:]:
                pause = length >= 4 and rng.random() < PAUSE_PROBABILITY
                prompt += (", " if pause else " ") + word
            utterances.append(
                Utterance(
                    id=uid,
                    split=split,
                    voice=voice,
                    words=words,
                    prompt=prompt,
                    stretch=round(rng.uniform(*voice.stretch), 3),
                    f0_mean_hz=round(rng.uniform(*voice.f0_mean_hz), 1) if voice.f0_mean_hz else None,
                    speed=round(rng.uniform(*voice.speed), 3),
                    peak_dbfs=round(rng.uniform(*PEAK_DBFS), 2),
                    snr_db=round(rng.uniform(*NOISE_SNR_DB), 1) if rng.random() < NOISE_PROBABILITY else None,
                )
            )
    return utterances


# --- how it is said ---------------------------------------------------------------------------


class CommandFailed(Exception):
    """A program's line and what it said when it failed."""


def command(*argv, stdin: bytes | None = None) -> bytes:
    line = [str(a) for a in argv]
    done = subprocess.run(line, input=stdin, capture_output=True)
    if done.returncode != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise CommandFailed(f"{' '.join(line)}: exit {done.returncode}: {said}")
    return done.stdout


def synthesise(utterances: list[Utterance], work: Path) -> None:
    """Writes `work/<id>.wav` as the synthesiser gives it."""
    for voice in VOICES:
        mine = [u for u in utterances if u.voice is voice]
        if voice.engine == "flite":
            for u in mine:
                pitch = ["--setf", f"int_f0_target_mean={u.f0_mean_hz}"] if u.f0_mean_hz else []
                command(
                    "flite", "-voice", voice.name, "--setf", f"duration_stretch={u.engine_stretch:.4f}",
                    *pitch, "-t", u.prompt, "-o", work / f"{u.id}.wav",
                )  # fmt: skip
        else:
            script = work / f"{voice.name}.scm"
            script.write_text("".join(festival_forms(u, work) for u in mine))
            command("festival", "-b", script)
        for u in mine:
            if not (work / f"{u.id}.wav").is_file():
                raise CommandFailed(f"{u.id}: {voice.engine} wrote nothing; are all of {PACKAGES} installed?")


def festival_forms(u: Utterance, work: Path) -> str:
    forms = f"(voice_{u.voice.name})\n(Param.set 'Duration_Stretch {u.engine_stretch:.4f})\n"
    if u.f0_mean_hz:
        forms += (
            f"(set! int_lr_params '((target_f0_mean {u.f0_mean_hz}) (target_f0_std 15)"
            " (model_f0_mean 170) (model_f0_std 34)))\n"
        )
    if u.voice.name.endswith("_hts"):
        # hts_engine takes its own rate and ignores Duration_Stretch.
        forms += (
            f"(set! hts_engine_params (append {u.voice.name}::hts_engine_params"
            f" '((\"-r\" {1 / u.engine_stretch:.4f}))))\n"
        )
    return forms + f"(utt.save.wave (utt.synth (Utterance Text \"{u.prompt}\")) \"{work / u.id}.wav\" 'riff)\n"


def at_corpus_rate(u: Utterance, work: Path) -> list[int]:
    # -R and -D: no dither, so nothing random; 3 dB of headroom for the resampler's overshoot.
    raw = command(
        "sox", "-R", "-D", "-v", "0.7", work / f"{u.id}.wav", "-t", "raw", "-e", "signed-integer", "-b", "16", "-L",
        "-c", "1", "-", "speed", f"{u.speed:.3f}", "rate", "-h", str(SAMPLE_RATE_HZ),
    )  # fmt: skip
    return list(samples_from(raw))


def samples_from(raw: bytes) -> array.array:
    samples = array.array("h")
    samples.frombytes(raw)
    if sys.byteorder == "big":
        samples.byteswap()
    return samples


def trimmed(samples: list[int]) -> list[int]:
    """Cuts the synthesiser's own silence, keeping a little before the first and after the last sound."""
    energies = [
        sum(x * x for x in samples[i : i + FRAME_LEN]) / FRAME_LEN for i in range(0, len(samples), FRAME_LEN)
    ]
    floor = max(energies) * 10 ** (-TRIM_BELOW_PEAK_DB / 10)
    loud = [i for i, energy in enumerate(energies) if energy > floor]
    margin = round(TRIM_MARGIN_S * SAMPLE_RATE_HZ)
    return samples[max(0, loud[0] * FRAME_LEN - margin) : (loud[-1] + 1) * FRAME_LEN + margin]


def finished(u: Utterance, samples: list[int], seed: int) -> array.array:
    """Silence at the edges, noise where it was drawn, and the peak that was drawn."""
    rng = rng_for(seed, "finish", u.id)
    lead, trail = (round(rng.uniform(*EDGE_SILENCE_S) * SAMPLE_RATE_HZ) for _ in range(2))
    speech_power = sum(x * x for x in samples) / len(samples)
    signal = [0.0] * lead + [float(x) for x in samples] + [0.0] * trail
    if u.snr_db is not None:
        # One pole of low-pass, its corner drawn: rooms and microphones are seldom white.
        pole = rng.uniform(0.0, 0.9)
        gain = math.sqrt(speech_power * 10 ** (-u.snr_db / 10) * (1 - pole * pole))
        noise = 0.0
        for i in range(len(signal)):
            noise = pole * noise + gain * rng.gauss(0.0, 1.0)
            signal[i] += noise
    scale = 32768 * 10 ** (u.peak_dbfs / 20) / max(abs(x) for x in signal)
    return rounded([x * scale for x in signal])


def rounded(signal: list[float]) -> array.array:
    """16-bit samples whose low bits are zero where their block is loud enough to cover the rounding."""
    samples = array.array("h")
    for start in range(0, len(signal), BLOCK_LEN):
        block = signal[start : start + BLOCK_LEN]
        rms = math.sqrt(sum(x * x for x in block) / len(block))
        # Rounding to multiples of a step makes an error of step / sqrt(12).
        step = rms * 10 ** (-ROUNDING_BELOW_BLOCK_DB / 20) * math.sqrt(12)
        bit = 2 ** max(0, math.floor(math.log2(max(step, 1.0))))
        samples.extend(min(round(x / bit) * bit, 32768 - bit) for x in block)
    return samples


def write_flac(path: Path, samples: array.array) -> None:
    little = array.array("h", samples)
    if sys.byteorder == "big":
        little.byteswap()
    raw = little.tobytes()
    command(
        "flac", "--silent", "--force", "-8", "--no-padding", "--no-seektable", f"--blocksize={BLOCK_LEN}", "--force-raw-format", "--endian=little",
        "--sign=signed", "--channels=1", "--bps=16", f"--sample-rate={SAMPLE_RATE_HZ}", f"--input-size={len(raw)}",
        "-o", path, "-", stdin=raw,
    )  # fmt: skip


# --- the folder -------------------------------------------------------------------------------


def make(folder: Path, seed: int) -> None:
    utterances = plan(seed)
    for split in SPLITS:
        (folder / split).mkdir(parents=True, exist_ok=True)
        for stale in (folder / split).glob(f"{split}-*.flac"):
            stale.unlink()
    manifests: dict[str, list[dict]] = {split: [] for split in SPLITS}
    with tempfile.TemporaryDirectory() as tmp:
        work = Path(tmp)
        synthesise(utterances, work)
        for u in utterances:
            samples = finished(u, trimmed(at_corpus_rate(u, work)), seed)
            relative = f"{u.split}/{u.id}.flac"
            write_flac(folder / relative, samples)
            manifests[u.split].append(
                {
                    "audio_filepath": relative,
                    "duration": len(samples) / SAMPLE_RATE_HZ,
                    "text": u.text,
                    "speaker": u.voice.name,
                    "id": u.id,
                }
            )
    for split, entries in manifests.items():
        lines = (json.dumps(entry) + "\n" for entry in sorted(entries, key=lambda e: e["id"]))
        (folder / f"{split}.jsonl").write_text("".join(lines))
    with open(folder / "synthesis.csv", "w", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["id", "prompt", "stretch", "f0_mean_hz", "speed", "peak_dbfs", "snr_db"])
        for u in sorted(utterances, key=lambda u: u.id):
            rows.writerow([u.id, u.prompt, u.stretch, u.f0_mean_hz, u.speed, u.peak_dbfs, u.snr_db])
    write_totals(folder)


def load(folder: Path) -> dict[str, list[dict]]:
    return {
        split: [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()] for split in SPLITS
    }


def totals_table(folder: Path) -> str:
    rows = ["| split | voice | utterances | words | minutes |", "|---|---|---:|---:|---:|"]
    for split, entries in load(folder).items():
        groups = [(v.name, [e for e in entries if e["speaker"] == v.name]) for v in VOICES]
        for name, group in [g for g in groups if g[1]] + [("**all**", entries)]:
            words = sum(len(e["text"].split()) for e in group)
            minutes = sum(e["duration"] for e in group) / 60
            rows.append(f"| {split} | {name} | {len(group)} | {words} | {minutes:.2f} |")
    return "\n".join(rows) + "\n"


TOTALS_BEGIN, TOTALS_END = "<!-- totals: written by make_corpus.py -->\n", "<!-- end of totals -->\n"


def write_totals(folder: Path) -> None:
    """Puts the counted table between the README's two marks; without a README, prints it."""
    readme, table = folder / "README.md", totals_table(folder)
    text = readme.read_text() if readme.is_file() else ""
    if TOTALS_BEGIN in text and TOTALS_END in text:
        head, tail = text.split(TOTALS_BEGIN)[0], text.split(TOTALS_END)[1]
        readme.write_text(head + TOTALS_BEGIN + table + TOTALS_END + tail)
    print(table, end="")


# --- the check --------------------------------------------------------------------------------


def frames_needed(text: str) -> int:
    """CTC's least number of frames: one a character, and a blank between equal neighbours."""
    return len(text) + sum(a == b for a, b in itertools.pairwise(text))


def check(folder: Path) -> list[str]:
    """Every broken promise of the folder, as a line each."""
    problems: list[str] = []
    manifests = load(folder)
    person = {v.name: v.person for v in VOICES}
    ids: collections.Counter = collections.Counter(e["id"] for es in manifests.values() for e in es)
    problems += [f"{i}: id used {n} times" for i, n in ids.items() if n > 1]
    listed = {e["audio_filepath"] for es in manifests.values() for e in es}
    found = {str(p.relative_to(folder)) for p in folder.rglob("*.flac")}
    problems += [f"{p}: in no manifest" for p in sorted(found - listed)]
    for split, entries in manifests.items():
        for e in entries:
            where = f"{split}.jsonl: {e['id']}"
            if e["audio_filepath"] not in found:
                problems.append(f"{where}: {e['audio_filepath']} is missing")
                continue
            problems += [f"{where}: {p}" for p in check_utterance(folder / e["audio_filepath"], e)]
    trigrams = {s: {t for e in es for t in trigrams_of(e["text"])} for s, es in manifests.items()}
    for a, b in itertools.combinations(SPLITS, 2):
        problems += [f"{a} and {b} share '{' '.join(t)}'" for t in sorted(trigrams[a] & trigrams[b])]
    heard = {person[e["speaker"]] for s in ("train", "dev") for e in manifests[s]}
    tested = {person[e["speaker"]] for e in manifests["test"]}
    problems += [f"{p} is heard in train or dev and in test" for p in sorted(heard & tested)]
    pairs = {p for e in manifests["train"] for p in itertools.pairwise(e["text"].split())}
    problems += [f"train lacks '{a} {b}'" for a, b in itertools.product(WORDS, repeat=2) if (a, b) not in pairs]
    readme = folder / "README.md"
    if readme.is_file() and totals_table(folder) not in readme.read_text():
        problems.append("README.md: its table is not that of the manifests")
    return problems


def trigrams_of(text: str) -> list[tuple[str, ...]]:
    words = text.split()
    return list(zip(words, words[1:], words[2:]))


def check_utterance(path: Path, entry: dict) -> list[str]:
    problems = []
    head = path.read_bytes()[:42]
    packed = int.from_bytes(head[18:26], "big")  # STREAMINFO: 20 bits rate, 3 channels, 5 depth, 36 samples
    if head[:4] != b"fLaC":
        return ["not a FLAC file"]
    rate, channels, bits, count = packed >> 44, (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1, packed & (1 << 36) - 1
    if (rate, channels, bits) != (SAMPLE_RATE_HZ, 1, 16):
        problems.append(f"{rate} Hz, {channels} channels, {bits} bits")
    # The decoder compares its output with the MD5 in the header and fails where they differ.
    try:
        raw = command("flac", "--silent", "-dc", "--force-raw-format", "--endian=little", "--sign=signed", path)
    except CommandFailed as failure:
        return [*problems, str(failure)]
    samples = samples_from(raw)
    if len(samples) != count or abs(entry["duration"] * SAMPLE_RATE_HZ - count) > 0.01:
        problems.append(f"{len(samples)} samples decoded, {count} in the header, {entry['duration']} s in the manifest")
    peak_dbfs = 20 * math.log10(max((abs(x) for x in samples), default=0) / 32768 or 1e-9)
    if not PEAK_DBFS[0] - 0.1 <= peak_dbfs <= PEAK_DBFS[1] + 0.1:
        problems.append(f"peak {peak_dbfs:.2f} dBFS")
    words = entry["text"].split()
    if not 1 <= len(words) <= 7 or any(w not in WORDS for w in words) or entry["text"] != " ".join(words):
        problems.append(f"text '{entry['text']}'")
    if not 0.25 <= entry["duration"] / len(words) <= 1.6:
        problems.append(f"{entry['duration'] / len(words):.3f} s a word")
    if entry["duration"] * 25 < frames_needed(entry["text"]):
        problems.append("too short for CTC at 25 frames a second")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="verify the folder instead of making it")
    args = parser.parse_args()
    missing = [p for p in (("flac",) if args.check else PROGRAMS) if shutil.which(p) is None]
    if missing:
        raise SystemExit(f"not installed: {' '.join(missing)}; try: apt-get install {PACKAGES}")
    try:
        if not args.check:
            make(args.folder, args.seed)
            return 0
        problems = check(args.folder)
    except (CommandFailed, OSError) as failure:
        raise SystemExit(str(failure)) from failure
    except (json.JSONDecodeError, KeyError) as failure:
        raise SystemExit(f"{args.folder}: a manifest is malformed: {failure!r}") from failure
    for problem in problems:
        print(problem, file=sys.stderr)
    size = sum(p.stat().st_size for p in args.folder.rglob("*") if p.is_file())
    print(f"{args.folder}: {len(problems)} problems, {size / 2**20:.2f} MiB")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
