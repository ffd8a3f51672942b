"""Which Toxiproxy server is run, and how our own is had: from a real web server on loopback, with a real program."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from netsim.binary import VERSION, NoToxiproxyError, server_path
from netsim.release import NoReleaseError, asset_name, checksum_of

ASSET = asset_name(platform.system(), platform.machine())


@dataclass
class Releases:
    """Files by path, and what was asked for. What is ``held`` comes in two halves, the second when it is let go."""

    files: dict[str, bytes]
    asked: list[str] = field(default_factory=list)
    held: threading.Event | None = None
    halfway: threading.Event = field(default_factory=threading.Event)
    address: str = ""


@pytest.fixture(scope="module")
def program() -> bytes:
    """The real server."""
    return server_path().read_bytes()


@pytest.fixture
def releases(program: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Releases]:
    """A place that has the release, an empty cache, and nothing on the PATH, not even Go."""
    sums = f"{'0' * 64}  toxiproxy-cli-linux-amd64\n{hashlib.sha256(program).hexdigest()}  {ASSET}\n"
    found = Releases({f"/v{VERSION}/{ASSET}": program, f"/v{VERSION}/checksums.txt": sums.encode()})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            content = found.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            half = len(content) // 2
            self.wfile.write(content[:half])
            if found.held is not None and self.path.endswith(ASSET):
                found.halfway.set()
                found.held.wait(60)
            self.wfile.write(content[half:])

        def log_message(self, *_: object) -> None:
            """Not on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.address = f"http://127.0.0.1:{server.server_port}"
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("NARROWS_TOXIPROXY_RELEASES", found.address)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("NARROWS_TOXIPROXY", raising=False)
    yield found
    if found.held is not None:
        found.held.set()
    server.shutdown()
    server.server_close()


def cached(tmp_path: Path) -> set[str]:
    folder = tmp_path / "cache" / "narrows" / f"toxiproxy-{VERSION}"
    return {path.name for path in folder.iterdir()} - {".lock"}


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def getting() -> subprocess.Popen[bytes]:
    """Another process that wants the server."""
    return subprocess.Popen(
        [sys.executable, "-m", "netsim.binary"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    )


def test_without_go_the_release_is_fetched_once_and_runs(
    releases: Releases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = server_path()
    assert b"toxiproxy-server version" in subprocess.run([path, "-version"], capture_output=True, check=True).stdout
    assert cached(tmp_path) == {"server"}
    assert "fetching the Toxiproxy server" in capsys.readouterr().err
    asked = len(releases.asked)
    assert server_path() == path
    assert len(releases.asked) == asked


def test_a_program_that_is_not_what_was_published_is_not_kept(releases: Releases, tmp_path: Path) -> None:
    good = releases.files[f"/v{VERSION}/{ASSET}"]
    releases.files[f"/v{VERSION}/{ASSET}"] = good[:-1] + bytes([good[-1] ^ 1])
    with pytest.raises(NoToxiproxyError, match=f"required the sha256.*{hashlib.sha256(good).hexdigest()}; got"):
        server_path()
    assert cached(tmp_path) == set()


def test_what_is_missing_is_named(releases: Releases, tmp_path: Path) -> None:
    del releases.files[f"/v{VERSION}/{ASSET}"]
    with pytest.raises(NoToxiproxyError, match=f"{ASSET}: required a file; got 404"):
        server_path()
    releases.files[f"/v{VERSION}/checksums.txt"] = b"junk\n"
    with pytest.raises(NoToxiproxyError, match=f"required a line with the sha256 of {ASSET}"):
        server_path()
    assert cached(tmp_path) == set()


@pytest.mark.usefixtures("releases")
def test_without_a_network_it_is_said_what_else_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NARROWS_TOXIPROXY_RELEASES", "http://127.0.0.1:9")
    with pytest.raises(NoToxiproxyError, match=r"no Go to build it.*cannot be reached.*Install Go.*NARROWS_TOXIPROXY"):
        server_path()
    monkeypatch.setenv("NARROWS_TOXIPROXY_RELEASES", "file:///etc")
    with pytest.raises(NoToxiproxyError, match="requires an address that begins with https://"):
        server_path()
    assert cached(tmp_path) == set()


def test_where_go_fails_the_release_is_fetched(
    releases: Releases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path / "bin" / "go", "echo 'module lookup disabled' >&2; exit 1")
    server_path()
    said = capsys.readouterr().err
    assert "building the Toxiproxy server" in said
    assert "go install failed: module lookup disabled" in said
    assert cached(tmp_path) == {"server"}
    assert releases.asked


def test_two_processes_fetch_it_once(releases: Releases, tmp_path: Path) -> None:
    releases.held = threading.Event()
    first = getting()
    assert releases.halfway.wait(60)
    second = getting()
    waits = second.stderr
    assert waits is not None
    assert b"another process gets the Toxiproxy server" in waits.readline()
    releases.held.set()
    paths = [process.communicate(timeout=60)[0] for process in (first, second)]
    assert paths[0] == paths[1] != b""
    assert sum(path.endswith(ASSET) for path in releases.asked) == 1
    assert cached(tmp_path) == {"server"}


def test_who_is_interrupted_leaves_nothing_and_what_a_killed_one_left_is_removed(
    releases: Releases, tmp_path: Path
) -> None:
    releases.held = threading.Event()
    interrupted = getting()
    assert releases.halfway.wait(60)
    interrupted.send_signal(signal.SIGINT)
    interrupted.communicate(timeout=60)
    assert cached(tmp_path) == set()
    releases.halfway.clear()
    killed = getting()
    assert releases.halfway.wait(60)
    killed.kill()
    killed.communicate(timeout=60)
    assert len(cached(tmp_path)) == 1
    releases.held.set()
    server_path()
    assert cached(tmp_path) == {"server"}


def test_an_interrupted_build_leaves_nothing(releases: Releases, tmp_path: Path) -> None:
    del releases.files[f"/v{VERSION}/{ASSET}"]
    begun = tmp_path / "begun"
    # As Go does: what is built is in GOBIN before it is complete.
    script(tmp_path / "bin" / "go", f'echo half > "$GOBIN/server"; echo > {begun}; exec /bin/sleep 60')
    building = getting()
    deadline = time.monotonic() + 60
    while not begun.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    building.send_signal(signal.SIGINT)
    building.communicate(timeout=60)
    assert cached(tmp_path) == set()


USAGE = 'echo "  -proxy-metrics\n  -version" >&2'


def test_one_on_the_path_is_used_and_another_version_is_said(
    releases: Releases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "bin" / "toxiproxy-server"
    script(there, f'[ "$1" = -version ] && echo toxiproxy-server version 2.9.0 || {USAGE}')
    assert server_path() == there
    assert f"is Toxiproxy 2.9.0; what we test with is {VERSION}" in capsys.readouterr().err
    script(there, f'[ "$1" = -version ] && echo toxiproxy-server version {VERSION} || {USAGE}')
    assert server_path() == there
    assert capsys.readouterr().err == ""
    assert not releases.asked


def test_one_on_the_path_that_cannot_count_is_not_used(
    releases: Releases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path / "bin" / "toxiproxy-server", 'echo "  -version" >&2; exit 2')
    assert server_path().parent.name == f"toxiproxy-{VERSION}"
    assert "is not used: it does not know -proxy-metrics" in capsys.readouterr().err
    assert releases.asked


@pytest.mark.usefixtures("releases")
def test_one_that_is_named_must_be_a_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in (("missing", None), ("text", "not a program"), ("other", "#!/bin/sh\necho hello\n")):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
            path.chmod(0o755)
        monkeypatch.setenv("NARROWS_TOXIPROXY", str(path))
        with pytest.raises(NoToxiproxyError, match=f"NARROWS_TOXIPROXY requires the path.*{name}"):
            server_path()


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("Linux", "x86_64", "toxiproxy-server-linux-amd64"),
        ("Linux", "aarch64", "toxiproxy-server-linux-arm64"),
        ("Linux", "armv7l", "toxiproxy-server-linux-armv7"),
        ("Darwin", "arm64", "toxiproxy-server-darwin-arm64"),
        ("FreeBSD", "amd64", "toxiproxy-server-freebsd-amd64"),
    ],
)
def test_the_file_of_a_system(system: str, machine: str, name: str) -> None:
    assert asset_name(system, machine) == name


def test_a_system_without_a_release_is_named() -> None:
    with pytest.raises(NoReleaseError, match="got Linux on riscv64"):
        asset_name("Linux", "riscv64")


def test_a_checksum_is_that_of_the_whole_name() -> None:
    text = f"{'a' * 64}  server-arm64\n{'B' * 64} *server\nshort  server\n"
    assert checksum_of("server", text) == "b" * 64
