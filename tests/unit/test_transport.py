"""A link is one connection: real gRPC on loopback, a site that answers, and peers that dial it by hand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

import grpc

from node.codec import FrameReader, FrameWriter, cut
from node.core.limits import MIB
from node.core.link import PROTOCOL_VERSION, Hello, Kind, Part, Refuse
from node.io.transport import CHANNEL_OPTIONS, CONNECT_METHOD, SERVER_OPTIONS, Transport
from node.stack import ConnectionClosed, ConnectionOpened, FrameArrived, Input, SendFrame

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
    (greeting,) = FrameWriter().write([Hello(PROTOCOL_VERSION, "c", 100, site, "beta", 1, 0, 1, b"")])
    await dialled.write(greeting.data)
    return dialled


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


def test_a_peer_that_dials_again_has_one_connection_and_what_waits_in_the_other_is_not_sent() -> None:
    """Else two would carry data at once, and a network that limits a connection would not limit the link."""

    async def test() -> None:
        async with (
            answering() as beta,
            grpc.aio.insecure_channel(beta.address, options=CHANNEL_OPTIONS) as one,
            grpc.aio.insecure_channel(beta.address, options=CHANNEL_OPTIONS) as other,
        ):
            first = await call(one, "alpha")
            await until(lambda: beta.of(ConnectionOpened))
            (megabyte,) = FrameWriter().write([Part(1, Kind.TUPLES, False, os.urandom(MIB), 1)])
            for _ in range(MANY):
                beta.transport.send(SendFrame("alpha", 1, megabyte))

            second = await call(other, "alpha")
            await until(lambda: beta.of(ConnectionClosed))
            assert [(item.peer, item.connection) for item in beta.of(ConnectionOpened)] == [("alpha", 1), ("alpha", 2)]
            assert beta.of(ConnectionClosed) == [ConnectionClosed("alpha", 1, "alpha dialled again")]

            beta.transport.send(SendFrame("alpha", 1, cut(b"meant for the connection before")))
            (word,) = FrameWriter().write([Refuse("said on the second")])
            beta.transport.send(SendFrame("alpha", 2, word))
            assert await second.read() == word.data
            came = 0
            while (data := await first.read()) is not grpc.aio.EOF:
                assert data == megabyte.data
                came += 1
            assert came < MANY

    run(test)


def test_what_comes_on_the_connection_before_is_not_taken() -> None:
    async def test() -> None:
        async with answering() as beta, grpc.aio.insecure_channel(beta.address, options=CHANNEL_OPTIONS) as channel:
            first = await call(channel, "alpha")
            await until(lambda: beta.of(ConnectionOpened))
            await call(channel, "alpha")
            await until(lambda: beta.of(ConnectionClosed))
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
                await first.write(b"late")
            assert await first.read() is grpc.aio.EOF
            assert [item.greeting.site for item in beta.of(ConnectionOpened) if item.greeting] == ["alpha", "alpha"]
            assert not beta.of(FrameArrived)

    run(test)


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
