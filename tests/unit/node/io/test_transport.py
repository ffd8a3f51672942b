"""A link is one connection: real gRPC on loopback, a site that answers, and peers that dial it by hand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import grpc
import pytest

from node.codec import FrameReader, FrameWriter, cut
from node.core.limits import MIB
from node.core.links.link import PROTOCOL_VERSION
from node.core.links.link_frames import Hello, Kind, Part, Refuse
from node.io.readiness import Readiness
from node.io.server import Server
from node.io.transport import CHANNEL_OPTIONS, CONNECT_METHOD, SERVER_OPTIONS, Transport
from node.rpc.control_pb2_grpc import ControlServicer
from node.stack import CloseConnection, ConnectionClosed, ConnectionOpened, FrameArrived, Input, SendFrame
from tests.e2e.harness import free_port

Item = TypeVar("Item", bound=Input)

PATIENCE_S = 30.0
#: Shipments of a megabyte: more than a connection holds that nobody reads.
MANY = 60


@dataclass
class Answering:
    """Site beta, which alpha dials and which dials gamma itself."""

    address: str = ""
    happened: list[Input] = field(default_factory=list)
    transport: Transport = field(init=False)

    def __post_init__(self) -> None:
        self.transport = Transport("beta", {"alpha": "127.0.0.1:9", "gamma": "127.0.0.1:9"}, self.happened.extend)

    def of(self, kind: type[Item]) -> list[Item]:
        return [item for item in self.happened if isinstance(item, kind)]


@asynccontextmanager
async def answering() -> AsyncIterator[Answering]:
    beta = Answering()
    server = grpc.aio.server(options=SERVER_OPTIONS)
    service, method = CONNECT_METHOD.strip("/").split("/")
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(beta.transport.answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    beta.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield beta
    finally:
        await beta.transport.stop()
        await server.stop(0)


async def until(said: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not said():
            await asyncio.sleep(0.01)


async def call(channel: grpc.aio.Channel, site: str) -> grpc.aio.StreamStreamCall[bytes, bytes]:
    """Dial as a site and greet."""
    dialled: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(CONNECT_METHOD)()
    (greeting,) = FrameWriter().write([Hello(PROTOCOL_VERSION, "c", 100, site, "beta", 1, 0, 0, 1, b"")])
    await dialled.write(greeting.data)
    return dialled


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


def test_a_peer_that_dials_again_ends_nothing_and_hears_nothing_by_itself() -> None:
    """Whether it is the peer, and the first one is gone, is not the transport's to decide."""

    async def test() -> None:
        async with (
            answering() as beta,
            grpc.aio.insecure_channel(beta.address, options=CHANNEL_OPTIONS) as one,
            grpc.aio.insecure_channel(beta.address, options=CHANNEL_OPTIONS) as other,
        ):
            first = await call(one, "alpha")
            await until(lambda: beta.of(ConnectionOpened))
            second = await call(other, "alpha")
            await until(lambda: len(beta.of(ConnectionOpened)) == len((first, second)))
            assert [(item.peer, item.connection) for item in beta.of(ConnectionOpened)] == [("alpha", 1), ("alpha", 2)]
            await first.write(b"on the first")
            await until(lambda: beta.of(FrameArrived))
            for number, text in ((1, "said on the first"), (2, "said on the second")):
                (word,) = FrameWriter().write([Refuse(text)])
                beta.transport.send(SendFrame("alpha", number, word))
                assert await (first, second)[number - 1].read() == word.data
            assert not beta.of(ConnectionClosed)

    run(test)


def test_a_connection_that_ends_at_once_sends_nothing_of_what_waits_in_it() -> None:
    """Else two would carry data at once, and a network that limits a connection would not limit the link."""

    async def test() -> None:
        async with answering() as beta, grpc.aio.insecure_channel(beta.address, options=CHANNEL_OPTIONS) as channel:
            first = await call(channel, "alpha")
            await until(lambda: beta.of(ConnectionOpened))
            (megabyte,) = FrameWriter().write([Part(1, Kind.TUPLES, False, os.urandom(MIB), 1)])
            for _ in range(MANY):
                beta.transport.send(SendFrame("alpha", 1, megabyte))
            beta.transport.close(CloseConnection("alpha", 1, "alpha dialled again", at_once=True))
            await until(lambda: beta.of(ConnectionClosed))
            assert beta.of(ConnectionClosed) == [ConnectionClosed("alpha", 1, "alpha dialled again")]
            beta.transport.send(SendFrame("alpha", 1, cut(b"too late")))
            came = 0
            while (data := await first.read()) is not grpc.aio.EOF:
                assert data == megabyte.data
                came += 1
            assert came < MANY
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
                await first.write(b"late")
            assert not beta.of(FrameArrived)

    run(test)


def test_last_words_are_said_and_who_does_not_take_them_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.io.transport._LAST_WORDS_S", 0.2)

    async def test() -> None:
        async with answering() as beta, grpc.aio.insecure_channel(beta.address, options=CHANNEL_OPTIONS) as channel:
            polite, deaf = await call(channel, "alpha"), await call(channel, "alpha")
            await until(lambda: len(beta.of(ConnectionOpened)) == len((polite, deaf)))
            (word,) = FrameWriter().write([Refuse("already here")])
            (megabyte,) = FrameWriter().write([Part(1, Kind.TUPLES, False, os.urandom(MIB), 1)])
            beta.transport.send(SendFrame("alpha", 1, word))
            for _ in range(MANY):
                beta.transport.send(SendFrame("alpha", 2, megabyte))  # which nobody reads
            for number in (1, 2):
                beta.transport.close(CloseConnection("alpha", number, "refused"))
            assert await polite.read() == word.data
            assert await polite.read() is grpc.aio.EOF
            await until(lambda: len(beta.of(ConnectionClosed)) == len((polite, deaf)))

    run(test)


def test_who_dials_and_does_not_say_who_it_is_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.io.transport._GREETING_S", 0.2)

    async def test() -> None:
        async with answering() as beta, grpc.aio.insecure_channel(beta.address, options=CHANNEL_OPTIONS) as channel:
            dialled: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(CONNECT_METHOD)()
            answer = await dialled.read()
            assert isinstance(answer, bytes)
            (refused,) = FrameReader().read(cut(answer))
            assert isinstance(refused, Refuse)
            assert refused.reason.startswith("site beta requires Hello within")
            assert await dialled.read() is grpc.aio.EOF
            assert not beta.happened

    run(test)


def test_a_second_server_cannot_have_the_port() -> None:
    """gRPC shares a port by itself: each of two daemons would get some of the calls."""

    async def test() -> None:
        first, second = (grpc.aio.server(options=SERVER_OPTIONS) for _ in range(2))
        port = first.add_insecure_port("127.0.0.1:0")
        await first.start()
        try:
            with pytest.raises(RuntimeError):
                second.add_insecure_port(f"127.0.0.1:{port}")
        finally:
            await first.stop(0)

    run(test)


@pytest.mark.parametrize("options", [CHANNEL_OPTIONS, SERVER_OPTIONS])
def test_both_ends_notice_a_peer_that_hangs(options: tuple[tuple[str, int], ...]) -> None:
    """Without a time-out of the ping itself gRPC waits for over a minute, whatever keepalive says."""
    said = dict(options)
    assert said["grpc.keepalive_time_ms"] + said["grpc.http2.ping_timeout_ms"] <= 30_000
    assert said["grpc.keepalive_permit_without_calls"] == 1
    assert said["grpc.http2.max_pings_without_data"] == 0
    allowed = dict(SERVER_OPTIONS)["grpc.http2.min_recv_ping_interval_without_data_ms"]
    assert allowed < dict(CHANNEL_OPTIONS)["grpc.keepalive_time_ms"]


def test_a_path_that_healed_is_tried_within_seconds() -> None:
    said = dict(CHANNEL_OPTIONS)
    assert max(said["grpc.min_reconnect_backoff_ms"], said["grpc.max_reconnect_backoff_ms"]) <= 5_000


def test_a_site_that_has_to_be_dialled_may_not_dial() -> None:
    """Both ends that dial would be two connections."""

    async def test() -> None:
        async with answering() as beta, grpc.aio.insecure_channel(beta.address, options=CHANNEL_OPTIONS) as channel:
            dialled = await call(channel, "gamma")
            answer = await dialled.read()
            assert isinstance(answer, bytes)
            (refused,) = FrameReader().read(cut(answer))
            assert isinstance(refused, Refuse)
            assert "site beta dials gamma itself" in refused.reason
            assert not beta.happened

    run(test)


@pytest.mark.parametrize("waits", [True, False])
def test_a_peer_that_starts_is_dialled_until_it_is_ready_and_says_why(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits has one connection; who was refused has the peer's own words, and dials again."""
    if not waits:
        monkeypatch.setattr("node.io.server._PEER_WAITS_S", 0.01)

    async def test() -> None:
        beta, address = Answering(), f"127.0.0.1:{free_port()}"
        server = Server(Readiness("beta"))
        assert await server.listen(address)
        server.readiness.step("starting Spark")
        happened: list[Input] = []
        alpha = Transport("alpha", {"beta": address}, happened.extend)
        alpha.start()
        greeted = 0

        def meeting() -> list[int]:
            """Greet on every new connection, as a link does; the numbers of those that there were."""
            nonlocal greeted
            opened = [item.connection for item in happened if isinstance(item, ConnectionOpened)]
            for number in opened[greeted:]:
                (greeting,) = FrameWriter().write([Hello(PROTOCOL_VERSION, "c", 100, "alpha", "beta", 1, 0, 0, 1, b"")])
                alpha.send(SendFrame("beta", number, greeting))
            greeted = len(opened)
            return opened

        def refused() -> bool:
            closed = [item.reason for item in happened if isinstance(item, ConnectionClosed)]
            said = "site beta is not ready: starting Spark, since "
            return any(reason.startswith(said) for reason in closed)

        try:
            await until(lambda: meeting() if waits else refused())
            assert not beta.happened
            server.open(cast("Any", ControlServicer)(), beta.transport)
            await until(lambda: meeting() and beta.of(ConnectionOpened))
            assert not waits or meeting() == [1]
        finally:
            await alpha.stop()
            await beta.transport.stop()
            await server.stop(0)

    run(test)
