"""A daemon's port. It says from the first moment on how far the daemon is, and serves all else once that is ready.

What a query or a peer needs is not there before, and a query that began then would begin too early. So a client that
comes too early is refused with what the daemon waits for. A peer waits a while before it is: each time it dials costs
bytes, and then there are pauses.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

import grpc

from node.instance import STARTING_KEY
from node.io.readiness import Readiness
from node.io.transport import CONNECT_METHOD, SERVER_OPTIONS, Transport
from node.rpc.control_pb2_grpc import (
    ControlServicer,
    add_ControlServicer_to_server,
    add_ReadinessServicer_to_server,
)

Context = grpc.aio.ServicerContext[bytes, bytes]

#: More than the longest pause between two dials, so that who waited dials again at once; less than the time after which
#: a peer that says nothing is given up.
_PEER_WAITS_S = 6.0


#: Tells a client that it is refused only because the daemon is starting.
STARTING = ((STARTING_KEY, "yes"),)


def _is_trouble(record: logging.LogRecord) -> bool:
    """A call that is cancelled as the daemon leaves is none, but gRPC tells of it with its stack."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


logging.getLogger("grpc._cython.cygrpc").addFilter(_is_trouble)


class Server:
    """The gRPC server of one daemon."""

    def __init__(self, readiness: Readiness) -> None:
        self.readiness = readiness
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        self._later = _Later(readiness)
        add_ReadinessServicer_to_server(readiness, self._server)
        self._server.add_generic_rpc_handlers((self._later,))

    async def listen(self, address: str) -> bool:
        """Begin to answer. Whether the address is free and ours."""
        if not _is_free(address):
            return False
        try:
            self._server.add_insecure_port(address)
        except RuntimeError:
            return False
        await self._server.start()
        return True

    def open(self, control: ControlServicer, transport: Transport) -> None:
        """The daemon is ready: from now on these two answer."""
        self._later.transport = transport
        add_ControlServicer_to_server(control, cast("grpc.aio.Server", self._later))
        self.readiness.done()

    async def stop(self, grace_s: float) -> None:
        """Let calls end for so long, then end them. Can be called again."""
        await self._server.stop(grace_s)


def _is_free(address: str) -> bool:
    """Whether the port can be had. If not, gRPC would say so by itself, in its own words, on standard error."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), int(port)), family=family).close()
    except OSError:
        return False
    return True


class _Later(grpc.GenericRpcHandler):
    """Services that are added to a server that answers already, which gRPC's own server does not allow."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness
        self._handlers: list[grpc.GenericRpcHandler] = []
        self.transport: Transport | None = None

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """As generated code does it with a server."""
        self._handlers.extend(handlers)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """Generated code says everything twice; this form is for servers that are not started yet."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Who answers a call; None: nobody knows it."""
        if handler_call_details.method == CONNECT_METHOD:
            return _streaming(self._connect)
        if not self._readiness.ready:
            # A call of any kind: no message is read, and none is sent.
            return _streaming(self._refuse)
        found = (handler.service(handler_call_details) for handler in self._handlers)
        return next((handler for handler in found if handler is not None), None)

    async def _connect(self, requests: AsyncIterator[bytes], context: Context) -> None:
        try:
            await asyncio.wait_for(self._readiness.wait(), _PEER_WAITS_S)
        except TimeoutError:
            await self._refuse(requests, context)
        assert self.transport is not None
        await self.transport.answer(requests, context)

    async def _refuse(self, _: AsyncIterator[bytes], context: Context) -> None:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self._readiness.refusal, STARTING)


def _streaming(
    behaviour: Callable[[AsyncIterator[bytes], Context], Awaitable[None]],
) -> grpc.RpcMethodHandler[bytes, bytes]:
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(behaviour)
    return handler
