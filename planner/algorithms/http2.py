"""What gRPC and HTTP/2 add to our bytes, as far as it can be known without looking at the wire.

The only estimate of it: what is counted (``node.io.reports.ledger``, ``node.stack``), what is simulated and what a plan
is expected to cost (``planner.algorithms.framing``) all come from here.
"""

from __future__ import annotations

#: gRPC puts 5 bytes before each message, HTTP/2 9 before each frame, which holds 16 KiB.
_GRPC_PREFIX_BYTES = 5
_HTTP2_FRAME_BYTES = 9
HTTP2_PAYLOAD_BYTES = 16 * 1024
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
    frames = -(-with_prefix // HTTP2_PAYLOAD_BYTES)
    return _GRPC_PREFIX_BYTES + _HTTP2_FRAME_BYTES * frames


class Framing:
    """One direction of a connection: what each message costs that goes there, which depends on what came back."""

    def __init__(self) -> None:
        #: Messages that went since the last one came back; None before the first.
        self._in_a_row: int | None = None

    def came_back(self) -> None:
        """A message came the other way."""
        self._in_a_row = 0

    def went(self, size: int) -> int:
        """What is added to a message of this size, the next one to go."""
        nbytes = framing_bytes(size)
        if self._in_a_row is not None:
            nbytes += (WINDOW_UPDATE_BYTES, _SECOND_UPDATE_BYTES, 0)[min(self._in_a_row, 2)]
            self._in_a_row += 1
        return nbytes
