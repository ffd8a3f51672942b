"""Bytes on the wire, counted where they enter and leave the socket, by kind."""

from __future__ import annotations

from node.core.link import Kind

#: gRPC puts 5 bytes before each message, HTTP/2 9 before each frame of at most 16 KiB.
_GRPC_PREFIX_BYTES = 5
_HTTP2_FRAME_BYTES = 9
_HTTP2_PAYLOAD_BYTES = 16 * 1024

FRAMING = "framing"


def framing_bytes(size: int) -> int:
    """What gRPC and HTTP/2 add to a message of this size."""
    with_prefix = size + _GRPC_PREFIX_BYTES
    frames = -(-with_prefix // _HTTP2_PAYLOAD_BYTES)
    return _GRPC_PREFIX_BYTES + _HTTP2_FRAME_BYTES * frames


class Ledger:
    """Bytes of one direction of one link."""

    def __init__(self) -> None:
        self.bytes_by_kind = {kind.name.lower(): 0 for kind in Kind} | {FRAMING: 0}

    def count(self, kind: Kind, size: int) -> None:
        self.bytes_by_kind[kind.name.lower()] += size
        self.bytes_by_kind[FRAMING] += framing_bytes(size)
