"""Downloads that are whole or not there: resumed where they were cut, checked before they get their name.

A file grows as NAME.part beside its place. A server that knows HTTP ranges (RFC 9110, section 14) goes on
where the last try ended, even in a later run; any other starts again. What does not have the published
checksum never gets the name.
"""

import errno
import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

CHUNK_LEN = 1 << 20
TIMEOUT_S = 60
# Tries without a byte gained; each waits twice as long as the one before.
MAX_TRIES = 5
FIRST_WAIT_S = 1.0


class FetchError(Exception):
    """What went wrong, with the way out."""


def fetch(url, path, checksum=None):
    """Downloads `url` to `path`, unless it is there already.

    `checksum` is an algorithm's name and the digest that the source publishes, such as
    ("md5", "32fa31d2..."); None trusts the transport (what comes out of the archive is then checked).
    """
    path = Path(path)
    if path.exists():
        if checksum is None or digest(path, checksum[0]) == checksum[1]:
            return
        say(f"{path} is there but does not have its published checksum: it is fetched again")
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_resumed = part.exists() and part.stat().st_size > 0
        receive(url, part)
        if checksum is not None and digest(part, checksum[0]) != checksum[1] and is_resumed:
            # The beginning may be another version's, or a disk's fault: once more from the start.
            part.unlink()
            receive(url, part)
        if checksum is not None and (found := digest(part, checksum[0])) != checksum[1]:
            part.unlink()
            raise FetchError(
                f"{url}: its {checksum[0]} is {found}, published is {checksum[1]}; it was damaged on the way or changed at "
                "the source, and was deleted: try again later, or from a mirror with --url"
            )
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise disk_fault(error, part) from error


def receive(url, part):
    """Appends to `part` until the server has no more."""
    tries, wait_s = 0, FIRST_WAIT_S
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            if receive_once(url, part, before):
                return
            reason = "the connection was cut"
        except urllib.error.HTTPError as error:
            if error.code == 416 and before > 0:
                # Nothing follows what is there, or it is longer than the file: the checksum tells.
                if total_of(error.headers.get("Content-Range")) == before:
                    return
                part.unlink()
                continue
            if error.code < 500 and error.code not in (408, 429):
                raise FetchError(f"{url}: the server answers {error.code} {error.reason}; is the address right?") from error
            reason = f"the server answers {error.code} {error.reason}"
        except (http.client.HTTPException, ConnectionError, TimeoutError, urllib.error.URLError) as error:
            reason = str(getattr(error, "reason", None) or error or type(error).__name__)
        after = part.stat().st_size if part.exists() else 0
        tries, wait_s = (0, FIRST_WAIT_S) if after > before else (tries + 1, wait_s * 2)
        if tries >= MAX_TRIES:
            raise FetchError(
                f"{url}: cannot be fetched: {reason}; check the network (and https_proxy), or bring the file to "
                f"{part.with_suffix('')} by other means; then run this again, and it goes on where it was"
            )
        say(f"{reason}; going on at {after} bytes")
        time.sleep(wait_s)


def receive_once(url, part, start):
    """One request. Whether the whole file is there afterwards."""
    request = urllib.request.Request(url, headers={"User-Agent": "asr-fetch", "Accept-Encoding": "identity"})
    if start > 0:
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        is_partial = response.status == 206 and start_of(response.headers.get("Content-Range")) == start
        if not is_partial:
            start = 0  # All of it comes, whatever was asked for.
        length = response.headers.get("Content-Length")
        total = start + int(length) if length is not None and length.isdigit() else None
        with open(part, "ab" if is_partial else "wb") as file:
            at = start
            while chunk := response.read1(CHUNK_LEN):
                file.write(chunk)
                at += len(chunk)
                progress(part, at, total)
    progress(part, None, total)
    return total is None or at == total


def start_of(content_range):
    """Of `bytes 500-999/1000`: 500."""
    numbers = (content_range or "").removeprefix("bytes ").split("-")[0]
    return int(numbers) if numbers.isdigit() else None


def total_of(content_range):
    """Of `bytes */1000`: 1000."""
    total = (content_range or "").rpartition("/")[2]
    return int(total) if total.isdigit() else None


def digest(path, algorithm):
    hasher = hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_LEN):
            hasher.update(chunk)
    return hasher.hexdigest()


def write_whole(path, text):
    """Writes a text file whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise disk_fault(error, path) from error


def disk_fault(error, path):
    if error.errno == errno.ENOSPC:
        return FetchError(f"{path}: the disk is full; free some space and run this again, and it goes on where it was")
    return FetchError(f"{error.filename or path}: {error.strerror or error}")


def say(text):
    print(text, file=sys.stderr, flush=True)


def progress(part, at, total):
    """A line that is rewritten, on a terminal only; `at` None ends it."""
    if not sys.stderr.isatty():
        return
    if at is None:
        sys.stderr.write("\n")
        return
    share = f" of {total / 1e6:.1f}" if total else ""
    sys.stderr.write(f"\r{part.name}: {at / 1e6:.1f}{share} MB")
    sys.stderr.flush()


def unpack(archive, directory):
    """Unpacks a tar file into a folder that does not exist yet; a member that leads out of it is refused."""
    import tarfile

    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = Path(member.name)
                if name.is_absolute() or ".." in name.parts:
                    raise FetchError(f"{archive}: its member {member.name!r} leads out of the folder")
                if member.isfile():
                    target = directory / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with tar.extractfile(member) as source, open(target, "wb") as file:
                        while chunk := source.read(CHUNK_LEN):
                            file.write(chunk)
    except (tarfile.TarError, EOFError) as error:
        raise FetchError(f"{archive}: cannot be unpacked: {error}; delete it and run this again") from error
    except OSError as error:
        raise disk_fault(error, directory) from error


def run(program, main):
    """Runs `main`, and says in one line what failed."""
    try:
        main()
    except FetchError as error:
        sys.exit(f"{program}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{program}: interrupted; run it again, and it goes on where it was")
