#!/usr/bin/env python3
"""Fetches the Free Spoken Digit Dataset and writes its manifests.

    python3 scripts/fetch_fsdd.py data/fsdd

DEST/audio has the 3000 recordings (8 kHz, one digit each, six speakers). `official-train.jsonl` and
`official-test.jsonl` are the set's own split (takes 0 to 4 of each digit and speaker are the test);
`train.jsonl`, `dev.jsonl` and `test.jsonl` keep speakers apart (lucas is dev, george is test). Stopped or
cut off, it goes on where it was when run again. Needs Python 3.9 and nothing else. CC BY-SA 4.0.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import wave
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from download import FetchError, fetch, run, say, unpack, write_whole  # noqa: E402

COMMIT = "26eb9aaf76e81b692f806f9140c2d2777410d7a1"
# Of the recordings at that commit (see sha256_of_folder). GitHub packs archives as it likes, so that theirs
# have no checksum that lasts.
RECORDINGS = "1801eae019c063377d98f831d3f93574f259475df7332bb0e3d1b080fb5e6959"
URL = f"https://github.com/Jakobovski/free-spoken-digit-dataset/archive/{COMMIT}.tar.gz"

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
NAME = re.compile(r"([0-9])_([a-z]+)_([0-9]+)\.wav")


def sha256_of_folder(folder):
    """The checksum of the list of checksums, as `LC_ALL=C sha256sum * | sha256sum` has it."""
    paths = sorted(folder.iterdir(), key=lambda path: path.name.encode())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def manifests(audio):
    """The lines of each manifest by its name."""
    lines = {name: [] for name in ("train", "dev", "test", "official-train", "official-test")}
    for path in sorted(audio.iterdir()):
        match = NAME.fullmatch(path.name)
        if not match:
            continue
        digit, speaker, take = match.groups()
        try:
            with wave.open(str(path)) as recording:
                duration_s = recording.getnframes() / recording.getframerate()
        except (wave.Error, EOFError) as error:
            raise FetchError(f"{path}: {error}; delete {audio} and run this again") from error
        entry = {
            "audio_filepath": f"audio/{path.name}",
            "duration": duration_s,
            "text": WORDS[int(digit)],
            "speaker": speaker,
            "id": path.stem,
        }
        line = json.dumps(entry) + "\n"
        lines["official-test" if int(take) < 5 else "official-train"].append(line)
        lines[{"lucas": "dev", "george": "test"}.get(speaker, "train")].append(line)
    return lines


def fetch_all(dest, url, recordings):
    audio = dest / "audio"
    if not audio.is_dir():
        archive = dest / "fsdd.tar.gz"
        fetch(url, archive)
        say(f"unpacking {archive}")
        scratch = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=dest))
        try:
            unpack(archive, scratch)
            unpacked = list(scratch.glob("*/recordings"))
            found = sha256_of_folder(unpacked[0]) if len(unpacked) == 1 else "none"
            if found != recordings:
                archive.unlink()
                raise FetchError(
                    f"{url}: the checksum of its recordings is {found}, pinned is {recordings}; it was damaged on the way "
                    "or is another version, and was deleted: try again later"
                )
            # The folder has its name only when all is in it.
            os.rename(unpacked[0], audio)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        archive.unlink()
    for name, lines in manifests(audio).items():
        write_whole(dest / f"{name}.jsonl", "".join(lines))
        print(f"{dest / name}.jsonl: {len(lines)} utterances")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dest", type=Path, metavar="DEST", help="the folder that everything goes to")
    parser.add_argument("--url", default=URL, help="another place of the same archive")
    args = parser.parse_args()
    fetch_all(args.dest, args.url, RECORDINGS)


if __name__ == "__main__":
    run("fetch_fsdd.py", main)
