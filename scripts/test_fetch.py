#!/usr/bin/env python3
"""Tests of the fetch scripts against a server on this machine: no network is touched."""

import contextlib
import hashlib
import http.server
import io
import json
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import wave
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS))
import download  # noqa: E402
import fetch_fsdd  # noqa: E402
import fetch_librispeech  # noqa: E402
from download import FetchError, fetch  # noqa: E402


class Server(http.server.ThreadingHTTPServer):
    """Serves `files` by path, with the faults that a test asks for; `requests` are (path, Range)."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.requests = {}, []
        self.knows_ranges, self.says_length = True, True
        self.cut_after = []  # Bytes of each next answer, until the connection is cut.
        self.statuses = []  # Status of each next answer instead of the file.
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append((self.path, wanted))
        self.close_connection = True
        if server.statuses:
            return self.send_error(server.statuses.pop(0))
        body = server.files.get(self.path.lstrip("/"))
        if body is None:
            return self.send_error(404)
        start = 0
        if wanted and server.knows_ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if server.says_length:
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        cut = server.cut_after.pop(0) if server.cut_after else None
        self.wfile.write(body[start:][:cut])

    def log_message(self, *_):
        pass


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="asr-fetch-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.server = Server()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.waits = []
        for patch in (
            mock.patch("time.sleep", self.waits.append),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)

    def files(self):
        return sorted(str(path.relative_to(self.dir)) for path in self.dir.rglob("*") if path.is_file())


def md5(data):
    return ("md5", hashlib.md5(data).hexdigest())


class Downloads(Case):
    BODY = bytes(range(256)) * 5_000

    def setUp(self):
        super().setUp()
        self.server.files["f"] = self.BODY
        self.path = self.dir / "below" / "f"

    def get(self, body=BODY):
        fetch(self.server.url("f"), self.path, md5(body))

    def assert_whole(self):
        self.assertEqual(self.path.read_bytes(), self.BODY)
        self.assertEqual(self.files(), ["below/f"])

    def test_a_file_is_fetched_once(self):
        self.get()
        self.assert_whole()
        self.get()
        self.assertEqual(len(self.server.requests), 1)

    def test_cut_connections_are_gone_on_with(self):
        self.server.cut_after = [1_000, 100_000, 0, 50_000]
        self.get()
        self.assert_whole()
        starts = [wanted for _, wanted in self.server.requests]
        self.assertEqual(starts, [None, "bytes=1000-", "bytes=101000-", "bytes=101000-", "bytes=151000-"])

    def test_a_later_run_goes_on_where_an_earlier_one_was_stopped(self):
        self.path.parent.mkdir()
        self.path.with_name("f.part").write_bytes(self.BODY[:700_001])
        self.get()
        self.assert_whole()
        self.assertEqual(self.server.requests, [("/f", "bytes=700001-")])

    def test_a_part_that_is_whole_already_is_taken(self):
        self.path.parent.mkdir()
        self.path.with_name("f.part").write_bytes(self.BODY)
        self.get()
        self.assert_whole()

    def test_a_part_that_is_too_long_or_another_files_is_fetched_again(self):
        self.path.parent.mkdir()
        for part in (self.BODY + b"more", b"other" * 1_000):
            self.path.unlink(missing_ok=True)
            self.path.with_name("f.part").write_bytes(part)
            self.get()
            self.assert_whole()

    def test_a_server_without_ranges_starts_again(self):
        self.server.knows_ranges = False
        self.server.cut_after = [1_000_000, 1_100_000]
        self.get()
        self.assert_whole()
        self.assertEqual(len(self.server.requests), 3)

    def test_a_server_that_says_no_length_is_believed_and_checked(self):
        self.server.says_length = False
        self.get()
        self.assert_whole()
        self.path.unlink()
        self.server.cut_after = [1_000]
        with self.assertRaisesRegex(FetchError, "published is"):
            self.get()

    def test_a_wrong_checksum_leaves_nothing(self):
        with self.assertRaisesRegex(FetchError, f"md5 is {md5(self.BODY)[1]}, published is {md5(b'x')[1]}"):
            self.get(b"x")
        self.assertEqual(self.files(), [])

    def test_a_damaged_file_in_place_is_fetched_again(self):
        self.path.parent.mkdir()
        self.path.write_bytes(b"damaged")
        self.get()
        self.assert_whole()

    def test_a_wrong_address_is_no_reason_to_try_again(self):
        with self.assertRaisesRegex(FetchError, "answers 404 Not Found; is the address right"):
            fetch(self.server.url("none"), self.path, md5(b""))
        self.assertEqual((len(self.server.requests), self.waits), (1, []))

    def test_a_busy_server_is_waited_for(self):
        self.server.statuses = [503, 429, 500]
        self.get()
        self.assert_whole()
        self.assertEqual(self.waits, [2.0, 4.0, 8.0])

    def test_without_a_network_the_error_says_so_and_what_to_do(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}/f"
        with self.assertRaises(FetchError) as caught:
            fetch(url, self.path, md5(b""))
        for words in (url, "refused", "check the network", str(self.path), "goes on where it was"):
            self.assertIn(words, str(caught.exception))
        self.assertEqual(len(self.waits), download.MAX_TRIES - 1)

    def test_a_disk_that_is_full_is_named(self):
        full = OSError(28, "No space left on device")
        with mock.patch("download.receive", side_effect=full), self.assertRaisesRegex(FetchError, "the disk is full"):
            self.get()

    def test_a_member_that_leads_out_of_the_folder_is_refused(self):
        for name in ("../out", "/out", "a/../../out"):
            archive = self.dir / "a.tar.gz"
            archive.write_bytes(packed({name: b"x"}))
            with self.assertRaisesRegex(FetchError, "leads out of the folder"):
                download.unpack(archive, self.dir / "in" / "deep")
        self.assertEqual(self.files(), ["a.tar.gz"])


def packed(files):
    """A .tar.gz of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def flac(num_samples, rate_hz=16_000):
    """The head of a FLAC file: STREAMINFO alone."""
    stream = bytes(10) + (rate_hz << 44 | 15 << 36 | num_samples).to_bytes(8, "big") + bytes(16)
    return b"fLaC\x80" + len(stream).to_bytes(3, "big") + stream


class LibriSpeech(Case):
    def setUp(self):
        super().setUp()
        chapter = "LibriSpeech/dev-clean-2/84/121123"
        self.tar = packed(
            {
                "LibriSpeech/README.TXT": b"",
                f"{chapter}/84-121123.trans.txt": b"84-121123-0000 GO DO YOU HEAR\n84-121123-0001 BUT\n",
                f"{chapter}/84-121123-0000.flac": flac(33_440),
                f"{chapter}/84-121123-0001.flac": flac(8_000),
            }
        )
        self.server.files["dev-clean-2.tar.gz"] = self.tar

    def fetch(self, checksum=None):
        fetch_librispeech.fetch_set("dev-clean-2", self.dir, self.server.url("x")[:-2], checksum or md5(self.tar), False)

    def test_a_set_becomes_a_tree_and_a_manifest(self):
        self.server.cut_after = [100]
        self.fetch()
        lines = [json.loads(line) for line in (self.dir / "dev-clean-2.jsonl").read_text().splitlines()]
        audio = "LibriSpeech/dev-clean-2/84/121123/84-121123-0000.flac"
        first = {"audio_filepath": audio, "duration": 2.09, "text": "GO DO YOU HEAR", "speaker": "84", "id": "84-121123-0000"}
        self.assertEqual((lines[0], len(lines)), (first, 2))
        self.assertTrue((self.dir / audio).is_file())
        self.assertFalse(any(".part" in name or ".tar" in name or ".unpacking" in name for name in self.files()))
        requests = len(self.server.requests)
        self.fetch()
        self.assertEqual(len(self.server.requests), requests, "what is there is not fetched again")

    def test_a_wrong_checksum_unpacks_nothing(self):
        with self.assertRaisesRegex(FetchError, "published is"):
            self.fetch(md5(b""))
        self.assertEqual(self.files(), [])

    def test_an_archive_that_is_cut_leaves_no_tree(self):
        self.tar = self.server.files["dev-clean-2.tar.gz"] = self.tar[:-100]
        with self.assertRaisesRegex(FetchError, "cannot be unpacked"):
            self.fetch()
        self.assertFalse((self.dir / "LibriSpeech").exists())
        self.assertEqual(self.files(), ["dev-clean-2.tar.gz"])

    def test_the_program_says_in_one_line_what_failed(self):
        command = [sys.executable, SCRIPTS / "fetch_librispeech.py", self.dir, "dev-clean", "--url", self.server.url("none")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Afetch_librispeech.py: .*answers 404 Not Found.*\n\Z")


class Fsdd(Case):
    def setUp(self):
        super().setUp()
        self.recordings = {}
        for name in ("7_george_0", "7_lucas_5", "3_theo_12", "0_theo_4"):
            out = io.BytesIO()
            with wave.open(out, "wb") as recording:
                recording.setparams((1, 2, 8_000, 0, "NONE", ""))
                recording.writeframes(bytes(2 * 4_000))
            self.recordings[f"{name}.wav"] = out.getvalue()
        self.tar = packed({f"fsdd-26eb/recordings/{name}": data for name, data in self.recordings.items()})
        self.server.files["a.tar.gz"] = self.tar

    def test_the_recordings_become_manifests(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, data in self.recordings.items():
                Path(folder, name).write_bytes(data)
            pinned = fetch_fsdd.sha256_of_folder(Path(folder))
        fetch_fsdd.fetch_all(self.dir, self.server.url("a.tar.gz"), pinned)
        ids = {name: [json.loads(line)["id"] for line in (self.dir / f"{name}.jsonl").read_text().splitlines()]
               for name in ("train", "dev", "test", "official-train", "official-test")}
        self.assertEqual(ids, {
            "train": ["0_theo_4", "3_theo_12"], "dev": ["7_lucas_5"], "test": ["7_george_0"],
            "official-train": ["3_theo_12", "7_lucas_5"], "official-test": ["0_theo_4", "7_george_0"],
        })
        first = json.loads((self.dir / "dev.jsonl").read_text())
        self.assertEqual(first, {"audio_filepath": "audio/7_lucas_5.wav", "duration": 0.5, "text": "seven", "speaker": "lucas", "id": "7_lucas_5"})

    def test_another_version_is_refused(self):
        with self.assertRaisesRegex(FetchError, f"pinned is {fetch_fsdd.RECORDINGS}"):
            fetch_fsdd.fetch_all(self.dir, self.server.url("a.tar.gz"), fetch_fsdd.RECORDINGS)
        self.assertEqual(self.files(), [])

    def test_the_checksum_of_a_folder_is_that_of_sha256sum(self):
        for name, data in self.recordings.items():
            (self.dir / name).write_bytes(data)
        listed = subprocess.run("LC_ALL=C sha256sum * | sha256sum", shell=True, cwd=self.dir, check=True, capture_output=True, text=True)
        self.assertEqual(fetch_fsdd.sha256_of_folder(self.dir), listed.stdout.split()[0])


if __name__ == "__main__":
    unittest.main()
