"""A Toxiproxy server of our own, on a free port of loopback.

A port that was free may be taken by another the moment before our server takes it; then our server lives on without
its API, and the other answers in its place. So each server is given a mark when it starts, a proxy that is never
enabled, and nobody is taken for ours who does not have it.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from netsim.binary import NoToxiproxyError, server_path
from netsim.loopback import Answer, mark_name, who_answers

_START_S_MAX = 20.0
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Started:
    """A server that answers."""

    process: subprocess.Popen[bytes]
    #: Of its API.
    port: int
    token: str


def start_server(log: Path) -> Started:
    """Start one; what it says goes to ``log``."""
    binary = server_path()
    for _ in range(_TRIES):
        started = _try_to_start(binary, log)
        if started is not None:
            return started
    raise NoToxiproxyError(f"{binary} requires a free port of loopback; got none in {_TRIES} tries; its log is {log}")


def _try_to_start(binary: Path, log: Path) -> Started | None:
    """A server, or None if somebody else took its port."""
    token, port = secrets.token_hex(8), _free_port()
    mark = {"name": mark_name(token), "listen": "127.0.0.1:0", "upstream": "127.0.0.1:9", "enabled": False}
    with tempfile.NamedTemporaryFile("w", prefix="narrows-toxiproxy-", suffix=".json") as config, log.open("wb") as out:
        json.dump([mark], config)
        config.flush()
        process = subprocess.Popen(
            [str(binary), "-host", "127.0.0.1", "-port", str(port), "-proxy-metrics", "-config", config.name],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            ours = _comes_up(process, port, token, binary, log)
        except BaseException:
            _end(process)
            raise
    if ours:
        return Started(process, port, token)
    _end(process)
    return None


def _comes_up(process: subprocess.Popen[bytes], port: int, token: str, binary: Path, log: Path) -> bool:
    """Wait until it answers; False if another does."""
    deadline = time.monotonic() + _START_S_MAX
    while (answer := who_answers(port, token)) is not Answer.OURS:
        if answer is Answer.STRANGER:
            return False
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise NoToxiproxyError(f"{binary} did not start: {''.join(said) or 'it said nothing'} (its log is {log})")
        time.sleep(0.05)
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
