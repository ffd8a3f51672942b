"""Bytes of a peer as protobuf."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from node.core.errors import PeerProtocolError
from node.rpc import link_pb2 as pb


def parse(into: pb.Frame | pb.Message | pb.About, data: bytes, what: str) -> None:
    """Read the bytes of ``what``. Raises PeerProtocolError if they are none."""
    try:
        into.ParseFromString(data)
    except DecodeError:
        raise PeerProtocolError(f"the bytes received require {what}; got {len(data)} that are not") from None
