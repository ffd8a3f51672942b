"""The emulated network brought up and taken down, with a real Toxiproxy server, whatever happened meanwhile."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from netsim.loopback import Answer, who_answers
from netsim.network import BroughtUp, bring_up, dialled, found, network, take_down
from netsim.profiles import Change, Shape, Wan
from netsim.proxies import Proxies, WanError
from netsim.state import Running, read_state, state_path, write_state

#: Nobody listens there, and names have what separates words elsewhere.
SITES = {"a--b": "127.0.0.1:9", "b": "127.0.0.1:10", "c_d-": "127.0.0.1:11"}
WAN = Wan("dsl", Change(), {("b", "a--b"): Change(bytes_per_s=8_000.0)})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """The file of a cluster, and after the test no server."""
    path = tmp_path / "cluster.toml"
    path.write_text("")
    yield path
    left = read_state(path)
    if left is not None and left.answer() is Answer.OURS:
        take_down(path)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with us."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


def test_every_direction_has_its_shape_and_nothing_is_left_after_down(cluster: Path) -> None:
    running = bring_up(cluster, SITES, WAN).running
    ways = {(way.source, way.target): way for way in Proxies(running.port).ways()}
    assert len(ways) == 6
    assert ways["a--b", "b"].shape == Shape(20, 2, 125_000.0)
    assert ways["b", "a--b"].shape == Shape(20, 2, 8_000.0)
    assert not any(way.cut for way in ways.values())
    assert take_down(cluster)
    assert list(cluster.parent.iterdir()) == [cluster]
    with pytest.raises(WanError, match="is not up; narrows wan up"):
        take_down(cluster)


def test_a_cut_is_remembered_with_its_time_and_a_change_does_not_heal_it(cluster: Path) -> None:
    proxies = Proxies(bring_up(cluster, SITES, WAN).running.port)

    def way(source: str, target: str) -> tuple[bool, bool, bool]:
        (one,) = [way for way in proxies.ways() if (way.source, way.target) == (source, target)]
        return one.cut, one.refused, one.cut_at is not None

    proxies.cut("b", "a--b")
    proxies.cut("b", "a--b")
    proxies.shape("b", "a--b", Shape(7, 0, None))
    proxies.drop("c_d-", "b")
    proxies.drop("b", "c_d-")
    assert way("b", "a--b") == (True, False, True)
    assert way("a--b", "b") == (False, False, False)
    assert way("b", "c_d-") == way("c_d-", "b") == (True, True, True)
    for one, other in (("b", "a--b"), ("b", "c_d-"), ("c_d-", "b")):
        proxies.heal(one, other)
        proxies.restore(one, other)
    assert not any(way.cut or way.cut_at is not None for way in proxies.ways())
    with pytest.raises(WanError, match="a link between two sites required, one of a--b-b"):
        proxies.cut("b", "nowhere")


def test_a_second_network_is_refused_also_at_the_same_moment(cluster: Path) -> None:
    def try_to(_: int) -> BroughtUp | str:
        try:
            return bring_up(cluster, SITES, WAN)
        except WanError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(try_to, range(2)))
    refused = [text for text in said if isinstance(text, str)]
    assert len(refused) == 1
    assert "is up already; narrows wan down" in refused[0]


def test_a_server_that_was_killed_is_noticed_and_comes_back_where_it_was(cluster: Path) -> None:
    first = bring_up(cluster, SITES, WAN).running
    os.kill(first.pid, signal.SIGKILL)
    os.waitpid(first.pid, 0)
    with pytest.raises(WanError, match=f"not up any more.*process {first.pid}, has ended; narrows wan up"):
        found(cluster)
    again = bring_up(cluster, SITES, WAN)
    assert (again.again, again.moved) == (True, False)
    assert again.running.listens == first.listens
    assert found(cluster) == again.running


def test_a_port_that_was_taken_meanwhile_is_replaced_and_that_is_known(cluster: Path) -> None:
    first = bring_up(cluster, SITES, WAN).running
    assert take_down(cluster, keep_ports=True)
    taken = next(iter(first.listens.values()))
    with socket.create_server(("127.0.0.1", int(taken.rpartition(":")[2]))):
        again = bring_up(cluster, SITES, WAN)
    assert (again.again, again.moved) == (True, True)
    assert sum(again.running.listens[link] == listen for link, listen in first.listens.items()) == 2


def test_a_link_whose_port_was_taken_while_it_was_refused_says_so(cluster: Path) -> None:
    running = bring_up(cluster, SITES, WAN).running
    proxies = Proxies(running.port)
    proxies.drop("b", "c_d-")
    with (
        socket.create_server(("127.0.0.1", int(running.listens["b~c_d-"].rpartition(":")[2]))),
        pytest.raises(WanError, match=r"between b and c_d- requires 127\.0\.0\.1:\d+ again; somebody took it"),
    ):
        proxies.restore("b", "c_d-")
    assert [way.refused for way in proxies.ways()].count(True) == 2
    proxies.restore("b", "c_d-")
    assert not any(way.cut for way in proxies.ways())


def test_a_process_that_has_the_number_of_a_server_of_before_is_left_alone(
    cluster: Path, stranger: subprocess.Popen[bytes]
) -> None:
    """After a reboot the file is there, and its process and port may be anybody's."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"narrows-of-another": {}}')

        def log_message(self, *_: object) -> None:
            """Not on the terminal."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for port in (server.server_port, 9):
            write_state(cluster, Running(stranger.pid, port, "0123", 0.0, {}, SITES))
            with pytest.raises(WanError, match="not up any more"):
                found(cluster)
            assert not take_down(cluster)
            assert not state_path(cluster).exists()
        server.shutdown()
    assert stranger.poll() is None


def test_who_answers_is_known_by_its_mark(cluster: Path) -> None:
    running = bring_up(cluster, SITES, WAN).running
    assert who_answers(running.port, running.token) is Answer.OURS
    assert who_answers(running.port, "another") is Answer.STRANGER
    assert who_answers(9, running.token) is Answer.NOBODY
    os.kill(running.pid, signal.SIGSTOP)
    os.waitpid(running.pid, os.WUNTRACED)
    try:
        assert who_answers(running.port, running.token, 0.5) is Answer.SILENT
    finally:
        os.kill(running.pid, signal.SIGCONT)
    assert running.answer() is Answer.OURS


def test_a_file_that_cannot_be_read_says_nothing(cluster: Path) -> None:
    for text in ("", "[]", '{"pid": 1}', json.dumps({"pid": "x"})):
        state_path(cluster).write_text(text)
        assert read_state(cluster) is None
        with pytest.raises(WanError, match="is not up; narrows wan up"):
            found(cluster)


def test_a_network_that_is_up_is_used_and_left_up_but_only_for_the_sites_it_was_made_for(cluster: Path) -> None:
    running = bring_up(cluster, SITES, WAN).running
    with network(cluster, SITES, WAN) as proxies:
        assert proxies is not None
    assert found(cluster) == running
    others = {**SITES, "b": "127.0.0.1:12"}
    with pytest.raises(WanError, match=r"b at 127.0.0.1:10.*has .*b at 127.0.0.1:12.*now: narrows wan down and up"):
        dialled(running, "b", others)
    with pytest.raises(WanError, match="narrows wan down and up"), network(cluster, others, WAN):
        pass
    assert set(dialled(running, "b", SITES)) == {"a--b", "c_d-"}


def test_a_network_that_is_brought_up_for_something_ends_with_it_even_if_it_ended_before(cluster: Path) -> None:
    for kill in (False, True):
        with network(cluster, SITES, WAN) as proxies:
            assert proxies is not None
            assert proxies.is_there()
            if kill:
                pid = found(cluster).pid
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                assert not proxies.is_there()
                with pytest.raises(WanError, match="required an answer; got none"):
                    proxies.counters()
        assert not state_path(cluster).exists()
    with network(cluster, SITES, None) as nothing:
        assert nothing is None


def test_the_users_web_proxies_are_not_asked(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    running = bring_up(cluster, SITES, WAN).running
    assert Proxies(running.port).ways()
