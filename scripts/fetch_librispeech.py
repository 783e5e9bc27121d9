#!/usr/bin/env python3
"""Fetches sets of LibriSpeech (or mini LibriSpeech) and writes a manifest of each.

    python3 scripts/fetch_librispeech.py data/librispeech dev-clean test-clean train-clean-100

DEST/SET.jsonl names the recordings in DEST/LibriSpeech/SET; the texts are the corpus's own, in capital
letters (`data.normalizer = "basic"` makes them small). Stopped or cut off, it goes on where it was when
run again. Needs Python 3.9 and nothing else. LibriSpeech is (c) 2014 Vassil Panayotov, CC BY 4.0.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from download import FetchError, fetch, run, say, unpack, write_whole  # noqa: E402

# https://www.openslr.org/resources/12/md5sum.txt and .../31/md5sum.txt
MD5 = {
    "dev-clean": ("12", "42e2234ba48799c1f50f24a7926300a1"),
    "dev-other": ("12", "c8d0bcc9cca99d4f8b62fcc847357931"),
    "test-clean": ("12", "32fa31d27d2e1cad72775fee3f4849a9"),
    "test-other": ("12", "fb5a50374b501bb3bac4815ee91d3135"),
    "train-clean-100": ("12", "2a93770f6d5c6c964bc36631d331a522"),
    "train-clean-360": ("12", "c0e676e450a7ff2f54aeade5171606fa"),
    "train-other-500": ("12", "d1a0fd59409feb2c614ce4d30c387708"),
    "dev-clean-2": ("31", "6d7ab67ac6a1d2c993d050e16d61080d"),
    "train-clean-5": ("31", "5df7d4e78065366204ca6845bb08f490"),
}

URL = "https://www.openslr.org/resources"


def flac_duration_s(path):
    """The length that the encoder wrote into STREAMINFO (RFC 9639, section 8.2)."""
    with open(path, "rb") as file:
        head = file.read(42)
    if len(head) < 42 or head[:4] != b"fLaC" or head[4] & 0x7F != 0:
        raise FetchError(f"{path}: not a FLAC file; delete the set's folder and run this again")
    rate_hz = int.from_bytes(head[18:21], "big") >> 4
    num_samples = int.from_bytes(head[21:26], "big") & ((1 << 36) - 1)
    if rate_hz == 0 or num_samples == 0:
        raise FetchError(f"{path}: its header has no length; delete the set's folder and run this again")
    return num_samples / rate_hz


def manifest_lines(dest, tree):
    """A line of each utterance of the set in `tree`."""
    for transcript in sorted(tree.glob("*/*/*.trans.txt")):
        speaker = transcript.name.split("-")[0]
        for line in transcript.read_text(encoding="utf-8").splitlines():
            if not line.strip():
                continue
            utterance, _, text = line.partition(" ")
            flac = transcript.parent / f"{utterance}.flac"
            if not flac.is_file():
                raise FetchError(f"{transcript}: {utterance} has no recording; delete {tree} and run this again")
            entry = {
                "audio_filepath": flac.relative_to(dest).as_posix(),
                "duration": flac_duration_s(flac),
                "text": text.strip(),
                "speaker": speaker,
                "id": utterance,
            }
            yield json.dumps(entry, ensure_ascii=False) + "\n"


def fetch_set(name, dest, url, checksum, keeps_archive):
    """Fetches, unpacks and lists one set; whatever is there already is not done again."""
    tree = dest / "LibriSpeech" / name
    if not tree.is_dir():
        archive = dest / f"{name}.tar.gz"
        fetch(f"{url}/{name}.tar.gz", archive, checksum)
        say(f"unpacking {archive}")
        # A folder has its name only when all is in it.
        scratch = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=dest))
        try:
            unpack(archive, scratch)
            unpacked = scratch / "LibriSpeech" / name
            if not unpacked.is_dir():
                raise FetchError(f"{archive}: holds no LibriSpeech/{name}")
            tree.parent.mkdir(exist_ok=True)
            os.rename(unpacked, tree)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if not keeps_archive:
            archive.unlink()
    manifest = dest / f"{name}.jsonl"
    lines = list(manifest_lines(dest, tree))
    if not lines:
        raise FetchError(f"{tree}: holds no transcripts; delete it and run this again")
    write_whole(manifest, "".join(lines))
    print(f"{manifest}: {len(lines)} utterances")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dest", type=Path, metavar="DEST", help="the folder that everything goes to")
    parser.add_argument("sets", nargs="+", choices=sorted(MD5), metavar="SET", help=f"some of {', '.join(MD5)}")
    parser.add_argument("--url", help="a mirror: the folder of SET.tar.gz [default: the set's folder at openslr.org]")
    parser.add_argument("--keep-archive", action="store_true", help="keep SET.tar.gz after it is unpacked")
    args = parser.parse_args()
    for name in args.sets:
        resource, md5 = MD5[name]
        fetch_set(name, args.dest, args.url or f"{URL}/{resource}", ("md5", md5), args.keep_archive)


if __name__ == "__main__":
    run("fetch_librispeech.py", main)
