"""A daemon's port before the daemon is ready and after: real gRPC on loopback, and the client that everybody uses."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import grpc
import pytest

from node.client import Client, NotNowError
from node.client.start import Start
from node.instance import INSTANCE_VARIABLE
from node.io.readiness import Readiness
from node.io.server import Server
from node.io.transport import CONNECT_METHOD, Transport
from node.rpc import control_pb2 as pb
from node.rpc.control_pb2_grpc import ControlServicer
from tests.e2e.harness import free_port

START = Start()
OURS = START.environment()[INSTANCE_VARIABLE]
NOT_READY = r"site cam is not ready: starting Spark, master local\[2\], since \d+ s"


class Answering(ControlServicer):
    """As much of a daemon as says that it is there."""

    async def Status(self, request: pb.Empty, context: Any) -> pb.StatusReply:  # noqa: N802 - named as in the .proto
        return pb.StatusReply(site="cam")


class Port:
    """A server in a thread of its own, which has a loop."""

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = self.do(lambda: Server(Readiness("cam", OURS)))
        assert asyncio.run_coroutine_threadsafe(self.server.listen(self.address), self._loop).result()

    def do(self, what: Callable[[], Any]) -> Any:
        async def call() -> Any:
            return what()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def open(self) -> None:
        transport = Transport("cam", {}, lambda _: None)
        self.do(lambda: self.server.open(cast("Any", Answering)(), transport))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(0), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port()
    yield made
    made.close()


@pytest.fixture
def client(port: Port) -> Iterator[Client]:
    with Client("cam", port.address) as made:
        yield made


QUESTIONS: list[Callable[[Client], object]] = [
    Client.status,
    Client.queries,
    lambda client: client.issue("SELECT", "SP-D"),
    lambda client: client.drop("cam-1"),
    lambda client: client.extent("cam-1"),
    lambda client: list(client.rows("cam-1", "", 0, 1, ["k"])),
    lambda client: list(client.follow("cam-1")),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_daemon_that_starts_refuses_everything_with_what_it_waits_for(
    port: Port, client: Client, question: Callable[[Client], object]
) -> None:
    port.do(lambda: port.server.readiness.step("starting Spark, master local[2]"))
    with pytest.raises(NotNowError, match=NOT_READY):
        question(client)


def test_a_peer_that_has_waited_for_a_daemon_that_starts_is_refused_in_the_same_words(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.io.server._PEER_WAITS_S", 0.01)
    port.do(lambda: port.server.readiness.step("starting Spark, master local[2]"))
    with grpc.insecure_channel(port.address) as channel:
        connect: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(CONNECT_METHOD)
        with pytest.raises(grpc.RpcError, match=NOT_READY) as refused:
            list(connect(iter([b"hello"])))
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_a_daemon_says_at_any_time_how_far_it_is(port: Port, client: Client) -> None:
    said = client.readiness()
    assert (said.site, said.instance, said.ready, list(said.steps)) == ("cam", OURS, False, [])
    port.do(lambda: port.server.readiness.step("one"))
    port.do(lambda: port.server.readiness.step("two"))
    said = client.readiness()
    assert (said.site, said.instance, said.ready, list(said.steps)) == ("cam", OURS, False, ["one", "two"])
    port.open()
    assert client.readiness() == pb.ReadyReply(site="cam", instance=OURS, ready=True, steps=["one", "two"])


def test_a_daemon_that_is_ready_answers_and_what_it_does_not_know_is_no_matter_of_time(
    port: Port, client: Client
) -> None:
    port.open()
    assert client.status() == pb.StatusReply(site="cam")
    with grpc.insecure_channel(port.address) as channel:
        nonsense: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/narrows.Control/Nonsense")
        with pytest.raises(grpc.RpcError) as refused:
            nonsense(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_only_the_daemon_that_was_started_is_taken_for_it(port: Port, client: Client) -> None:
    port.open()
    assert client.readiness().ready, "somebody is there, and ready"
    assert START.readiness(client) == client.readiness()
    assert Start().readiness(client) is None
    with Client("cam", f"127.0.0.1:{free_port()}") as nobody:
        assert START.readiness(nobody) is None


def test_a_port_that_is_taken_cannot_be_listened_on_and_grpc_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    async def listens(address: str) -> bool:
        return await Server(Readiness("cam")).listen(address)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not asyncio.run(listens(f"127.0.0.1:{taken.getsockname()[1]}"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("error", "told"), [(asyncio.CancelledError(), False), (RuntimeError("no luck"), True)])
def test_a_call_that_is_cancelled_as_the_daemon_leaves_is_no_stack_in_its_log(
    error: BaseException, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        raise error
    except BaseException:
        logging.getLogger("grpc._cython.cygrpc").exception("not handled")
    assert ("not handled" in caplog.text) is told
