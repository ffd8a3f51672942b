"""Which Toxiproxy server is run: the one that is named, the one on the PATH, or our own of a pinned version.

Our own is made once, into the user's cache: built with Go, or fetched as a release where there is no Go. Whatever
happens meanwhile, there is a whole program in the cache or none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from netsim.release import NoReleaseError, download
from planner.model.errors import NarrowsError

VERSION = "2.12.0"
_MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server"
_NAMED = "NARROWS_TOXIPROXY"
_ON_PATH = "toxiproxy-server"
#: What counts the bytes of links; servers before 2.4.0 do not have it.
_OPTION = "-proxy-metrics"
_ASKED_S_MAX = 20.0
#: What a server says that was built with Go: the version is known to releases only.
_UNKNOWN_VERSION = "git"


class NoToxiproxyError(NarrowsError):
    """There is no Toxiproxy server, and it cannot be had."""


def server_path() -> Path:
    """The server's binary. Making our own takes a minute or two, once."""
    if named := os.environ.get(_NAMED):
        if trouble := _unfit(named):
            raise NoToxiproxyError(f"{_NAMED} requires the path of a Toxiproxy server; got {named}: {trouble}")
        return Path(named)
    if installed := shutil.which(_ON_PATH):
        trouble = _unfit(installed)
        if not trouble:
            return Path(installed)
        _say(f"{installed} is not used: {trouble}")
    return _own()


def _unfit(path: str) -> str:
    """Why a server cannot be used; empty: it can. Says so if it is of another version than ours."""
    try:
        usage = _asked(path, "-h")
        if _OPTION not in usage:
            return f"it does not know {_OPTION}, so it is no Toxiproxy server or one before 2.4.0"
        found = re.search(r"version (\S+)", _asked(path, "-version"))
    except OSError as error:
        return f"it does not run ({error.strerror or error})"
    except subprocess.TimeoutExpired:
        return f"it did not say its options within {_ASKED_S_MAX:.0f} s"
    version = found[1].removeprefix("v") if found else "unknown"
    if version not in (VERSION, _UNKNOWN_VERSION):
        _say(f"{path} is Toxiproxy {version}; what we test with is {VERSION}")
    return ""


def _asked(path: str, option: str) -> str:
    answer = subprocess.run(
        [path, option], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASKED_S_MAX, check=False
    )
    return (answer.stdout + answer.stderr).decode(errors="replace")


def _own() -> Path:
    """Our own, made if it is not there. Of several who want it, one makes it and the others wait."""
    folder = _cache() / f"toxiproxy-{VERSION}"
    binary = folder / "server"
    if binary.exists():
        return binary
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not binary.exists():
                _make(folder, binary)
    except OSError as error:
        raise NoToxiproxyError(
            f"the Toxiproxy server requires a folder of its own in the cache; got {error.strerror or error}: {folder} "
            "(XDG_CACHE_HOME puts the cache elsewhere)"
        ) from None
    return binary


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Only one process at a time; the lock ends with the process, however that ends."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another process gets the Toxiproxy server {VERSION}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(folder: Path, binary: Path) -> None:
    for left in folder.glob("build-*"):
        # Of a process that was killed: nobody else is at work here.
        shutil.rmtree(left, ignore_errors=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as scratch:
        made = Path(scratch) / "server"
        no_build = _build(made)
        if no_build:
            _fetch(made, no_build)
        made.replace(binary)
    _say(f"the Toxiproxy server {VERSION} is in {folder} now ({time.monotonic() - began:.0f} s)")


def _build(made: Path) -> str:
    """Build the server with Go; why that was not possible, or empty."""
    if shutil.which("go") is None:
        return "there is no Go to build it"
    log = made.with_name("log")
    with _waiting(f"building the Toxiproxy server {VERSION} with Go, once"), log.open("wb") as out:
        process = subprocess.Popen(
            ["go", "install", f"{_MODULE}@v{VERSION}"],  # noqa: S607 - the user's Go
            env={**os.environ, "GOBIN": str(made.parent)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        try:
            code = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
    return f"go install failed: {log.read_text(errors='replace').strip()[-500:]}" if code else ""


def _fetch(made: Path, no_build: str) -> None:
    """Fetch the release, after it could not be built."""
    _say(f"{no_build}; so a release is fetched")
    try:
        with _waiting(f"fetching the Toxiproxy server {VERSION}, once") as progress:
            task = progress.task_ids[0]
            download(VERSION, made, lambda came, of: progress.update(task, completed=came, total=of))
    except NoReleaseError as error:
        raise NoToxiproxyError(
            f"the emulated network requires the Toxiproxy server {VERSION}; none of the ways to it works: "
            f"no {_ON_PATH} on the PATH that fits; {no_build}; {error}. "
            f"Install Go, or put {_ON_PATH} of a release on the PATH, or set {_NAMED} to it"
        ) from None


@contextlib.contextmanager
def _waiting(what: str) -> Iterator[Progress]:
    """Say what is done; on a terminal also for how long, and how far it is."""
    console = Console(stderr=True)
    if not console.is_terminal:
        _say(what)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    fetched = (BarColumn(20), DownloadColumn()) if what.startswith("fetching") else ()
    with Progress(*columns, *fetched, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(what, total=None)
        yield progress


def _say(text: str) -> None:
    print(f"narrows: {text}", file=sys.stderr, flush=True)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "narrows"


if __name__ == "__main__":
    try:
        print(server_path())
    except NarrowsError as failure:
        sys.exit(f"narrows: {failure}")
