"""A release of Toxiproxy for this system: fetched and compared with the checksum that was published with it.

The checksum comes from where the program comes from: it finds what was damaged or cut short on the way, not a
publisher who lies.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from planner.model.errors import NarrowsError

#: Set to fetch from a mirror instead.
RELEASES_VARIABLE = "NARROWS_TOXIPROXY_RELEASES"
_RELEASES = "https://github.com/Shopify/toxiproxy/releases/download"
_CHECKSUMS = "checksums.txt"
_SYSTEMS = ("linux", "darwin", "freebsd", "netbsd", "openbsd")
_PROCESSORS = {
    "x86_64": "amd64",
    "amd64": "amd64",
    "aarch64": "arm64",
    "arm64": "arm64",
    "armv7l": "armv7",
    "armv6l": "armv6",
}
_SILENCE_S_MAX = 30.0
_CHUNK_BYTES = 1 << 16
#: The server has 10 to 20 MB.
_BYTES_MAX = 256 << 20

#: Told how much came, and of how much if that is known.
Progress = Callable[[int, int | None], None]


class NoReleaseError(NarrowsError):
    """There is no release for this system, or it cannot be had."""


def download(version: str, target: Path, told: Progress) -> None:
    """Write the server of that version to ``target`` and make it a program."""
    name = asset_name(platform.system(), platform.machine())
    base = f"{(os.environ.get(RELEASES_VARIABLE) or _RELEASES).rstrip('/')}/v{version}"
    required = checksum_of(name, _fetch_text(f"{base}/{_CHECKSUMS}"))
    got = _fetch(f"{base}/{name}", target, told)
    if got != required:
        raise NoReleaseError(f"{base}/{name}: required the sha256 of {_CHECKSUMS}, {required}; got {got}")
    target.chmod(0o755)


def asset_name(system: str, machine: str) -> str:
    """How the server for such a machine is called among the files of a release."""
    known_system, processor = system.lower(), _PROCESSORS.get(machine.lower())
    if known_system not in _SYSTEMS or processor is None:
        raise NoReleaseError(
            f"releases of Toxiproxy require one of {', '.join(_SYSTEMS)} on {', '.join(_PROCESSORS)}; "
            f"got {system} on {machine}"
        )
    return f"toxiproxy-server-{known_system}-{processor}"


def checksum_of(name: str, text: str) -> str:
    """The sha256 of one file, from lines such as ``0123...  name``."""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].removeprefix("*") == name and re.fullmatch(r"[0-9a-fA-F]{64}", words[0]):
            return words[0].lower()
    raise NoReleaseError(f"{_CHECKSUMS} of the release: required a line with the sha256 of {name}; got none")


def _fetch_text(url: str) -> str:
    try:
        with _opened(url) as reply:
            return reply.read(_BYTES_MAX).decode(errors="replace")
    except (OSError, HTTPException) as error:
        raise _not_had(url, error) from None


def _fetch(url: str, target: Path, told: Progress) -> str:
    """Write what is at ``url`` to a file; its sha256."""
    digest, came = hashlib.sha256(), 0
    try:
        with _opened(url) as reply, target.open("wb") as out:
            length = reply.getheader("Content-Length")
            while chunk := reply.read(_CHUNK_BYTES):
                digest.update(chunk)
                out.write(chunk)
                came += len(chunk)
                if came > _BYTES_MAX:
                    raise NoReleaseError(f"{url}: required at most {_BYTES_MAX:,} bytes; got more")
                told(came, int(length) if length and length.isdecimal() else None)
    except (OSError, HTTPException) as error:
        raise _not_had(url, error) from None
    return digest.hexdigest()


def _opened(url: str) -> HTTPResponse:
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise NoReleaseError(f"{RELEASES_VARIABLE} requires an address that begins with https:// or http://; got {url}")
    reply: HTTPResponse = urllib.request.urlopen(url, timeout=_SILENCE_S_MAX)  # noqa: S310 - looked at above
    return reply


def _not_had(url: str, error: Exception) -> NoReleaseError:
    if isinstance(error, urllib.error.HTTPError):
        return NoReleaseError(f"{url}: required a file; got {error.code} {error.reason}")
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return NoReleaseError(f"{url} cannot be reached: {getattr(reason, 'strerror', None) or reason}")
