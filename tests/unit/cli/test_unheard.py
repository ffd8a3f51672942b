"""That nobody hears what is said beside the rows fails no command."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
from rich.console import Console

from cli.show.progress import LiveLine
from cli.tasks.run import _progress
from cli.unheard import UnheardStream
from node.client import DaemonSilentError
from node.rpc import control_pb2 as pb


def unread_pipe() -> TextIO:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w", buffering=1)


def closed() -> TextIO:
    stream = io.StringIO()
    stream.close()
    return stream


def full() -> TextIO:
    return Path("/dev/full").open("w", buffering=1)


@pytest.mark.parametrize("make", [unread_pipe, closed, full])
def test_what_cannot_be_said_is_dropped(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    below = make()
    with pytest.raises((OSError, ValueError)):
        print("a line", file=below, flush=True)
    stream = cast("TextIO", UnheardStream(below))
    monkeypatch.setattr(sys, "stderr", stream)
    print("a line", file=sys.stderr, flush=True)
    console = Console(stderr=True)
    console.print("another")
    line = LiveLine(console)
    monkeypatch.setattr("cli.show.progress._EVERY_S", -1.0)
    line.show(lambda: "so far")
    line.end()


def test_what_can_be_said_is() -> None:
    below = io.StringIO()
    stream = cast("TextIO", UnheardStream(below))
    stream.writelines(["a", "b"])
    print("c", file=stream, flush=True)
    assert below.getvalue() == "abc\n"
    assert not stream.isatty()


@pytest.mark.parametrize("width", [1, 2, 80])
def test_a_terminal_may_be_as_narrow_as_it_likes(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.show.progress._EVERY_S", -1.0)
    out = io.StringIO()
    line = LiveLine(Console(file=out, force_terminal=True, width=width))
    line.show(lambda: "x" * 200)
    assert 1 <= len(out.getvalue().strip("\r")) <= max(1, width - 1)


def test_a_site_that_does_not_say_how_far_it_is_fails_no_run() -> None:
    class Site:
        def __init__(self, answers: bool) -> None:
            self._answers = answers

        def status(self) -> pb.StatusReply:
            if not self._answers:
                raise DaemonSilentError("busy", "bow")
            return pb.StatusReply(streams=[pb.StreamStatus(name="orders", rows=5, state="reading")])

    class Cluster:
        def __init__(self) -> None:
            self.clients = {"ash": Site(True), "bow": Site(False)}

    said = _progress(cast("Any", Cluster()), 7)
    assert said == "7 rows   tuples read: orders 5 (reading), bow does not say"
