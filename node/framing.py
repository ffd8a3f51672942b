"""What gRPC and HTTP/2 add to our bytes, as far as it can be known without looking at the wire."""

from __future__ import annotations

#: gRPC puts 5 bytes before each message, HTTP/2 9 before each frame, which holds 16 KiB.
_GRPC_PREFIX_BYTES = 5
_HTTP2_FRAME_BYTES = 9
_HTTP2_PAYLOAD_BYTES = 16 * 1024
#: Whoever writes after having received gives back what the peer may send: 13 bytes for the stream and 13 for the
#: connection, once for all that came since. Who only receives does so every few MiB, which is not counted.
WINDOW_UPDATE_BYTES = 26
#: If gRPC had not yet been asked for the next message by then, the second write gives back 5 bytes more, at the
#: same price. That is a race inside gRPC: between 14 and 53 percent of second writes did so in our tests. This is
#: fitted to them, not derived; it leaves an error of up to 2 percent where all messages are small.
_SECOND_UPDATE_BYTES = 5


#: Preface, settings and headers of a new connection, from the site that dials and from the one that answers.
DIAL_BYTES = 290
ANSWER_BYTES = 153


def framing_bytes(size: int) -> int:
    """What gRPC and HTTP/2 add to a message of this size."""
    with_prefix = size + _GRPC_PREFIX_BYTES
    frames = -(-with_prefix // _HTTP2_PAYLOAD_BYTES)
    return _GRPC_PREFIX_BYTES + _HTTP2_FRAME_BYTES * frames


def update_bytes(before: int | None) -> int:
    """What a message gives back, the one after ``before`` others in a row; nothing came yet if that is None."""
    return (WINDOW_UPDATE_BYTES, _SECOND_UPDATE_BYTES)[before] if before is not None and before < 2 else 0
