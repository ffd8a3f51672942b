"""Connections: one gRPC bidirectional stream per pair of sites, dialled by the site whose name sorts first.

What flows and what it means is the link's business (``node.core.links.link``). Here
connections are made, broken connections are made again with backoff, and bytes
are written, read and counted.

A link has one connection at a time: two would share the path between them, and what
limits or measures a connection, as an emulated network does, would not limit or
measure the link. Who says that it is a peer which has a connection is not believed
at once, and told nothing meanwhile (``node.stack``); if it is let in, the one
before is ended first, with all that waits in it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

import grpc

from node.codec import FrameWriter, Shipment, cut
from node.core.errors import PeerProtocolError
from node.core.limits import MIB
from node.core.links.link_frames import Refuse
from node.io.reports.ledger import LinkLedger
from node.stack import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Greeting,
    Input,
    SendFrame,
    greeting_of,
)

log = logging.getLogger(__name__)

#: By hand, and not by generated code: that would wrap each shipment, which is bytes in a layout of its own, in a
#: message of protobuf, and so send more bytes.
CONNECT_METHOD = "/narrows.Link/Connect"

_BACKOFF_S_FIRST = 0.1
#: The longest pause before a peer is dialled again that did not want us, ...
_BACKOFF_S_MAX = 5.0
#: ... that nobody answers for, which costs a hundred bytes: a daemon that is started again must not wait for its
#: peers; ...
_AWAY_S_MAX = 0.5
#: ... and that is away for longer than a restart takes.
_GONE_S_MAX = 2.0
_GONE_S = 60.0
#: Who dials has to say who it is in this time, and who is refused has to take the refusal.
_GREETING_S = 10.0
_LAST_WORDS_S = 2.0
#: What gRPC has in hand of a connection that ends at once is waited for so long: a call whose first answer is taken
#: back cannot be ended any more, and its other end would wait for ever.
_IN_HAND_S = 0.2

#: The peer may always send as much as a link keeps in flight. Without this gRPC would find out by itself how much,
#: with pings that cost bytes.
_WINDOW_OPTIONS = (
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 8 * MIB),
)

#: Pings both ends agree on: each end pings who was silent for 20 s, the server allows one every 10 s. Without
#: ``ping_timeout_ms`` a hung peer goes unnoticed for over a minute.
_PING_OPTIONS = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
#: ``min_reconnect_backoff_ms`` is how long one attempt to connect may take: packets that are swallowed would hold it
#: for 20 s, long after the path has healed. Compression is the payload's matter.
CHANNEL_OPTIONS = (
    *_PING_OPTIONS,
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.compression_enabled_algorithms_bitset", 1),
    *_WINDOW_OPTIONS,
)
#: Without ``so_reuseport`` 0 a second daemon could have the same port, and each would get some of the calls.
SERVER_OPTIONS = (
    *_PING_OPTIONS,
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.compression_enabled_algorithms_bitset", 1),
    *_WINDOW_OPTIONS,
)

_LAST = None


class ByteStream(Protocol):
    """What a dialled call and an answered one have in common."""

    async def read(self) -> object:
        """The next message, or a mark that there is none."""

    async def write(self, data: bytes, /) -> None:
        """Send a message; waits while the peer does not keep up."""


@dataclass
class Connection:
    """An open stream and what waits to be written to it."""

    peer: str
    number: int
    outbox: asyncio.Queue[Shipment | None] = field(default_factory=asyncio.Queue)
    closing: str = ""
    #: Set when it ends at once: nothing more is written to it or taken from it.
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    #: Whether gRPC has something of it in hand that is not written yet.
    writing: bool = False


class Transport:
    """All connections of one daemon."""

    def __init__(self, site: str, peers: Mapping[str, str], put: Callable[[list[Input]], None]) -> None:
        self._site = site
        self._peers = peers
        self._put = put
        #: By number: a link has one, beside which others may ask to be let in.
        self._connections: dict[int, Connection] = {}
        self._count = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.ledgers = {peer: LinkLedger() for peer in peers}
        #: Why the last attempt to reach a peer failed, for people.
        self.trouble: dict[str, str] = {}
        #: What was last logged of a peer: who is refused comes again every few seconds, with the same words.
        self._logged: dict[str, str] = {}

    def start(self) -> None:
        """Dial every peer whose name sorts after ours, for ever."""
        for peer, address in self._peers.items():
            if self._site < peer:
                self._tasks.append(asyncio.create_task(self._keep_dialling(peer, address)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for connection in list(self._connections.values()):
            connection.outbox.put_nowait(_LAST)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- effects ------------------------------------------------------------------------------

    def send(self, effect: SendFrame) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.outbox.put_nowait(effect.shipment)

    def close(self, effect: CloseConnection) -> None:
        connection = self._connections.get(effect.connection)
        if connection is None:
            return
        if self._logged.get(effect.peer) != effect.reason:
            self._logged[effect.peer] = effect.reason
            log.warning("link %s-%s: closed (%s)", self._site, effect.peer, effect.reason)
        connection.closing = effect.reason
        if effect.at_once:
            connection.ended.set()
        else:
            connection.outbox.put_nowait(_LAST)
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, connection.ended.set)

    # -- dialling -----------------------------------------------------------------------------

    async def _keep_dialling(self, peer: str, address: str) -> None:
        backoff_s = _BACKOFF_S_FIRST
        met_s = asyncio.get_running_loop().time()
        while True:
            began = asyncio.get_running_loop().time()
            longest_s = _BACKOFF_S_MAX
            async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
                connect: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(CONNECT_METHOD)
                call = connect()
                try:
                    await call.wait_for_connection()
                    self.ledgers[peer].count_dialled()
                    await self._converse(self._open(peer), cast("ByteStream", call))
                    met_s = asyncio.get_running_loop().time()
                except grpc.aio.AioRpcError as error:
                    self._note_failure(peer, address, _cause(error))
                    away_s = asyncio.get_running_loop().time() - met_s
                    longest_s = _AWAY_S_MAX if away_s < _GONE_S else _GONE_S_MAX
                finally:
                    call.cancel()
            if asyncio.get_running_loop().time() - began > _BACKOFF_S_MAX:
                backoff_s = _BACKOFF_S_FIRST
            backoff_s = min(backoff_s, longest_s)
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1.5))  # noqa: S311 - spreads reconnects, no secret
            backoff_s *= 2

    def _note_failure(self, peer: str, address: str, reason: str) -> None:
        text = f"cannot reach {address}: {reason}"
        if self.trouble.get(peer) != text:
            log.info("link %s-%s: %s", self._site, peer, text)
        self.trouble[peer] = text

    # -- answering ----------------------------------------------------------------------------

    async def answer(self, _: AsyncIterator[bytes], context: ByteStream) -> None:
        """A peer dialled us: its first shipment says who it is."""
        try:
            first = await asyncio.wait_for(context.read(), _GREETING_S)
        except TimeoutError:
            await context.write(_refusal(f"site {self._site} requires Hello within {_GREETING_S:.0f} s; got nothing"))
            return
        if not isinstance(first, bytes):
            return
        shipment = cut(first)
        try:
            greeting = greeting_of(shipment)
        except PeerProtocolError as error:
            await context.write(_refusal(str(error)))
            return
        peer = greeting.hello.site
        if peer not in self._peers:
            known = ", ".join(sorted(self._peers)) or "none"
            reason = f"site {self._site} requires a peer among {known}; got {peer!r}"
            await context.write(_refusal(reason))
            return
        if peer > self._site:
            reason = f"site {self._site} dials {peer} itself, so that their link is one connection; got a call from it"
            await context.write(_refusal(reason))
            return
        self.ledgers[peer].count_answered()
        self.ledgers[peer].count_received(shipment.shares)
        await self._converse(self._open(peer, greeting), context)

    # -- a connection -------------------------------------------------------------------------

    def _open(self, peer: str, greeting: Greeting | None = None) -> Connection:
        self._count += 1
        connection = Connection(peer, self._count)
        self._connections[connection.number] = connection
        self.trouble.pop(peer, None)
        self._put([ConnectionOpened(peer, connection.number, greeting)])
        return connection

    async def _converse(self, connection: Connection, stream: ByteStream) -> str:
        """Write and read until one of the two is over, or the connection is to end; why it was."""
        # gRPC cancels the answering end when the peer's process dies: the link must hear of that too.
        reason = "connection lost"
        writer = asyncio.create_task(self._write(connection, stream))
        reader = asyncio.create_task(self._read(connection, stream))
        ended = asyncio.create_task(_wait(connection.ended))
        tasks = (writer, reader, ended)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            reason = connection.closing or next(iter(done)).result()
            if connection.writing and writer not in done:
                await asyncio.wait({writer}, timeout=_IN_HAND_S)
        finally:
            del self._connections[connection.number]
            for task in tasks:
                task.cancel()
            self._put([ConnectionClosed(connection.peer, connection.number, reason)])
            # Their own cancellation is returned, not raised; ours must go through, or stopping would hang.
            await asyncio.gather(*tasks, return_exceptions=True)
        return reason

    async def _write(self, connection: Connection, stream: ByteStream) -> str:
        ledger = self.ledgers[connection.peer]
        while (shipment := await connection.outbox.get()) is not _LAST:
            # Before it is written: what comes while it is on its way is after it, for the ledger too.
            ledger.count_sent(shipment.shares)
            connection.writing = True
            try:
                await stream.write(shipment.data)
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError, grpc.RpcError) as error:
                return _cause(error)
            connection.writing = False
            if connection.ended.is_set():
                break
        return connection.closing or "closed here"

    async def _read(self, connection: Connection, stream: ByteStream) -> str:
        try:
            while isinstance(data := await stream.read(), bytes):
                shipment = cut(data)
                self.ledgers[connection.peer].count_received(shipment.shares)
                self._put([FrameArrived(connection.peer, connection.number, shipment)])
        except (grpc.aio.AioRpcError, grpc.RpcError) as error:
            return _cause(error)
        return f"closed by {connection.peer}"


async def _wait(ended: asyncio.Event) -> str:
    await ended.wait()
    return "ended here"


def _refusal(reason: str) -> bytes:
    (shipment,) = FrameWriter().write([Refuse(reason)])
    return shipment.data


def _cause(error: BaseException) -> str:
    """A gRPC error as a person would say it."""
    if isinstance(error, grpc.aio.AioRpcError):
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return "nobody answers" if "onnect" in (error.details() or "") else "connection lost"
        if error.code() is grpc.StatusCode.INTERNAL and "from Core" in (error.details() or ""):
            # What gRPC says of a write to a connection that broke.
            return "connection lost"
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            # The peer's own words: it is not ready yet.
            return error.details() or "not ready"
        return f"{error.code().name.lower()}: {error.details()}"
    return str(error) or type(error).__name__
