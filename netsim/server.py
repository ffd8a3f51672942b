"""The Toxiproxy server: found or built, started on free ports of loopback, and stopped again.

Nothing but Go's modules ships it for every system, so it is built once, at a pinned version, into the user's cache.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from planner.errors import NarrowsError

VERSION = "2.12.0"
_MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server"
_START_S_MAX = 20.0


class NoToxiproxyError(NarrowsError):
    """There is no Toxiproxy server, and it cannot be had."""


def server_path() -> Path:
    """The server's binary: NARROWS_TOXIPROXY, toxiproxy-server on the PATH, or our own build of it."""
    named = os.environ.get("NARROWS_TOXIPROXY")
    if named:
        if not os.access(named, os.X_OK):
            raise NoToxiproxyError(f"NARROWS_TOXIPROXY requires the path of the Toxiproxy server; got {named}")
        return Path(named)
    installed = shutil.which("toxiproxy-server")
    return Path(installed) if installed else _built()


def _built() -> Path:
    """Our build; makes it, which takes a minute or two, if it is not there."""
    folder = _cache() / f"toxiproxy-{VERSION}"
    binary = folder / "server"
    if binary.exists():
        return binary
    if shutil.which("go") is None:
        raise NoToxiproxyError(
            f"the emulated network requires the Toxiproxy server {VERSION}; there is no toxiproxy-server on the PATH "
            "and no Go to build it: install Go, or put a release of Toxiproxy on the PATH as toxiproxy-server, "
            "or set NARROWS_TOXIPROXY to it"
        )
    print(f"building the Toxiproxy server {VERSION} once, into {folder} (a minute or two)", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    # Built beside and moved: a build that is interrupted leaves nothing that looks finished.
    scratch = folder / f"build-{os.getpid()}"
    result = subprocess.run(
        ["go", "install", f"{_MODULE}@v{VERSION}"],  # noqa: S607 - the user's Go
        env={**os.environ, "GOBIN": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise NoToxiproxyError(f"go install {_MODULE}@v{VERSION} failed: {result.stderr.strip()[-500:]}")
    (scratch / "server").replace(binary)
    scratch.rmdir()
    return binary


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "narrows"


def start_server(log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A server of our own on a free port of loopback; the process, and the port of its API."""
    binary = server_path()
    port = _free_port()
    with log.open("ab") as out:
        process = subprocess.Popen(
            [str(binary), "-host", "127.0.0.1", "-port", str(port), "-proxy-metrics"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_S_MAX
    while not answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise NoToxiproxyError(f"{binary} did not start; its log is {log}")
        time.sleep(0.05)
    return process, port


def answers(port: int) -> bool:
    """Whether somebody listens on a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    print(server_path())
