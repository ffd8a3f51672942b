"""What sites say about themselves in Hello: their streams."""

from __future__ import annotations

from collections.abc import Iterable

from node.rpc import link_pb2 as pb
from node.wire.parse import parse
from node.wire.values import stream_out, streams_in
from planner.model.query import StreamInfo


def encode_about(streams: Iterable[StreamInfo]) -> bytes:
    """A site's streams, for Hello."""
    return pb.About(streams=[stream_out(stream) for stream in streams]).SerializeToString()


def decode_about(data: bytes) -> tuple[StreamInfo, ...]:
    """A peer's streams.

    Raises PeerProtocolError if the bytes are not that.
    """
    about = pb.About()
    parse(about, data, "an about")
    return streams_in(about.streams)
