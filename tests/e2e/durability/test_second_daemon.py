"""Who says that it is a site and is not, or is one too many: the site that is there goes on, and so do its queries.

Of two sites the one whose name sorts first dials: here alpha dials beta, so who pretends to be alpha talks to beta.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pyarrow.parquet as pq
import pytest

from node.codec import FrameReader, FrameWriter, cut
from node.core.links.link import PROTOCOL_VERSION
from node.core.links.link_frames import Frame, Hello, Refuse
from node.io.transport import CHANNEL_OPTIONS, CONNECT_METHOD
from node.wire import encode_about
from tests.e2e.cases import lasting, steady
from tests.e2e.harness import (
    PATIENCE_S,
    Background,
    Daemons,
    assert_same_rows,
    eventually,
    free_port,
    issued,
    narrows,
    write_cluster,
)

SITES = ("alpha", "beta")
#: What alpha would say to beta if it began now.
HELLO = Hello(PROTOCOL_VERSION, "e2e", 100, "alpha", "beta", 1 << 40, 0, 0, 1, encode_about([]))


def trouble(daemons: Daemons, site: str = "alpha") -> str:
    """Why a site has no link."""
    status = daemons.status(site)
    return status.links[0].trouble if status is not None else ""


def copied(config: Path, folder: Path, old: str, new: str) -> Path:
    """The cluster's folder, copied as it is, and one thing in its file changed."""
    shutil.copytree(config.parent, folder, ignore=shutil.ignore_patterns("state", "*.out", "*.err"))
    other = folder / config.name
    text = other.read_text()
    assert old in text
    other.write_text(text.replace(old, new))
    return other


def greet(port: int, hello: Hello) -> list[Frame]:
    """All that is said to who dials a port and greets so, until it hangs up."""

    async def dial() -> list[Frame]:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS) as channel:
            call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(CONNECT_METHOD)()
            (shipment,) = FrameWriter().write([hello])
            await call.write(shipment.data)
            reader, frames = FrameReader(), list[Frame]()
            while isinstance(data := await call.read(), bytes):
                frames += reader.read(cut(data))
            return frames

    return asyncio.run(asyncio.wait_for(dial(), PATIENCE_S))


@pytest.mark.parametrize(
    ("intruder", "home"),
    [("second daemon", "alpha"), ("second daemon", "beta"), ("other cluster", "beta"), ("forged greetings", "alpha")],
)
def test_a_query_goes_on_whoever_else_says_it_is_one_of_its_sites(tmp_path: Path, intruder: str, home: str) -> None:
    join = lasting()
    ports = {site: free_port() for site in SITES}
    folder = tmp_path / "first"
    folder.mkdir()
    config = write_cluster(folder, join.streams, ports=ports)
    out = tmp_path / "rows.parquet"
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        words = ("query", "--config", config, "--at", home, join.text, "--out", out)
        query = Background(*words, name="query", folder=tmp_path)
        query_id = issued(query)
        eventually("some rows are stored", lambda: daemons.query_info(query_id).rows > 100)
        before = daemons.query_info(query_id).rows
        _INTRUDERS[intruder](config, tmp_path / "second", ports)
        assert query.process.poll() is None, "the query outlasts the intruder, or nothing was shown"
        eventually("rows go on coming", lambda: daemons.query_info(query_id).rows > before)
        for site in SITES:
            status = daemons.status(site)
            assert status is not None
            assert [link.state for link in status.links] == ["up"]
            assert [link.reconnects for link in status.links] == [0], "the connection that was there is the one that is"
        daemons.hurry()
        query.end().ok()
    assert_same_rows(pq.read_table(out), join.expected())


def _second_daemon(config: Path, folder: Path, ports: dict[str, int]) -> None:
    """Of alpha, from a copied folder, on another port; it is stopped when it has been refused."""
    other = copied(config, folder, f":{ports['alpha']}", f":{free_port()}")
    with Daemons(other).start("alpha") as second:
        eventually("it is refused", lambda: "site alpha is already here" in trouble(second))
        assert "refused by beta" in trouble(second)


def _other_cluster(config: Path, folder: Path, ports: dict[str, int]) -> None:
    """An alpha of another cluster, which was given the wrong address of a beta."""
    other = copied(config, folder, f":{ports['alpha']}", f":{free_port()}")
    other.write_text(other.read_text().replace('cluster = "e2e"', 'cluster = "other"'))
    with Daemons(other).start("alpha") as second:
        eventually("it is refused", lambda: "site beta requires cluster 'e2e'; got 'other'" in trouble(second))


def _forged_greetings(_config: Path, _folder: Path, ports: dict[str, int]) -> None:
    """Each is told that it may not, and nothing else: no greeting of beta's own."""
    for change, said in (
        ({}, "site alpha is already here"),
        ({"life": 1}, "has met life"),
        ({"cluster": "other"}, "requires cluster 'e2e'"),
        ({"version": PROTOCOL_VERSION - 1}, f"requires protocol version {PROTOCOL_VERSION}"),
        ({"peer": "gamma"}, "requires a call for site 'beta'"),
        ({"site": "gamma"}, "requires a peer among alpha"),
    ):
        (refusal,) = greet(ports["beta"], replace(HELLO, **change))
        assert isinstance(refusal, Refuse)
        assert said in refusal.reason


_INTRUDERS: dict[str, Callable[[Path, Path, dict[str, int]], None]] = {
    "second daemon": _second_daemon,
    "other cluster": _other_cluster,
    "forged greetings": _forged_greetings,
}


def test_the_link_heals_when_a_second_daemon_that_had_it_is_stopped(tmp_path: Path) -> None:
    """The first one was wedged for good: "link keeps parts 27 to 79; the peer wants 1"."""
    join, later = steady(2), steady(2, suffix="_later")
    ports = {site: free_port() for site in SITES}
    folder = tmp_path / "first"
    folder.mkdir()
    config = write_cluster(folder, (*join.streams, *later.streams), ports=ports)
    other = copied(config, tmp_path / "second", f":{ports['alpha']}", f":{free_port()}")
    names = []
    with Daemons(config).start(*SITES).linked() as daemons, Daemons(other) as second:
        narrows("query", "--config", config, "--at", "alpha", join.text, "--out", tmp_path / "rows.parquet").ok()
        names.append(daemons.query_id("alpha"))
        daemons.nodes["alpha"].signal(signal.SIGKILL)
        daemons.nodes["alpha"].process.wait()
        second.start("alpha").linked("alpha")

        daemons.start("alpha")
        eventually("the first is refused", lambda: "site alpha is already here" in trouble(daemons))
        second.nodes["alpha"].signal(signal.SIGTERM)
        second.nodes["alpha"].process.wait(PATIENCE_S)
        daemons.linked()
        out = tmp_path / "later.parquet"
        narrows("query", "--config", config, "--at", "alpha", later.text, "--out", out).ok()
        names.append(daemons.query_id("alpha"))
    assert len(set(names)) == len(names), "no name comes twice"
    assert_same_rows(pq.read_table(tmp_path / "rows.parquet"), join.expected())
    assert_same_rows(pq.read_table(out), later.expected())


def test_a_daemon_that_hangs_is_replaced_by_its_next_start_and_refused_when_it_comes_back(tmp_path: Path) -> None:
    """A life that is over is over, also if its process was only stopped."""
    join = steady(1)
    ports = {site: free_port() for site in SITES}
    folder = tmp_path / "first"
    folder.mkdir()
    config = write_cluster(folder, join.streams, ports=ports)
    other = copied(config, tmp_path / "second", f":{ports['alpha']}", f":{free_port()}")
    with Daemons(config).start(*SITES).linked() as daemons, Daemons(other) as second:
        daemons.nodes["alpha"].signal(signal.SIGSTOP)
        begun_s = int(time.time())
        eventually("lives of two folders are told apart by the second", lambda: int(time.time()) > begun_s)
        try:
            second.start("alpha").linked("alpha")
        finally:
            daemons.nodes["alpha"].signal(signal.SIGCONT)
        eventually("the first is refused", lambda: "requires no earlier one" in trouble(daemons))
        out = tmp_path / "rows.parquet"
        narrows("query", "--config", other, "--at", "alpha", join.text, "--out", out).ok()
    assert_same_rows(pq.read_table(out), join.expected())
