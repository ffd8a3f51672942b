"""Bytes of a peer as protobuf."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage

from node.core.errors import PeerProtocolError


def parse(into: ProtobufMessage, data: bytes, what: str) -> None:
    """Read the bytes of ``what``. Raises PeerProtocolError if they are none."""
    try:
        into.ParseFromString(data)
    except DecodeError:
        raise PeerProtocolError(f"the bytes received require {what}; got {len(data)} that are not") from None
