"""Frames that are neither parts nor acknowledgements, to bytes and back; those two are ``node.codec``'s."""

from __future__ import annotations

from node.core.errors import PeerProtocolError
from node.core.links import link_frames as frames
from node.core.links.link_frames import Frame
from node.core.links.lives import LIVES_TOLD_MAX
from node.rpc import link_pb2 as pb
from node.wire.parse import parse

RareFrame = frames.Hello | frames.Ping | frames.Pong | frames.Refuse


def encode_frame(frame: RareFrame) -> bytes:
    """One frame that is neither a part nor an acknowledgement (those are ``node.codec``'s) as bytes."""
    out = pb.Frame()
    match frame:
        case frames.Hello():
            out.hello.CopyFrom(
                pb.Hello(
                    version=frame.version,
                    cluster=frame.cluster,
                    tau_ms=frame.tau_ms,
                    site=frame.site,
                    peer=frame.peer,
                    life=frame.life,
                    peer_life=frame.peer_life,
                    resets=frame.resets,
                    expects=frame.expects,
                    about=frame.about,
                    folder=frame.folder,
                    lives=frame.lives,
                )
            )
        case frames.Ping():
            out.ping = frame.sent_at_us
        case frames.Pong():
            out.pong = frame.sent_at_us
        case frames.Refuse():
            out.refuse = frame.reason
    return out.SerializeToString()


def decode_frame(data: bytes) -> Frame:
    """One such frame from bytes.

    Raises PeerProtocolError if they are none.
    """
    frame = pb.Frame()
    parse(frame, data, "a frame")
    match frame.WhichOneof("body"):
        case "hello":
            return _hello(frame.hello)
        case "ping":
            return frames.Ping(frame.ping)
        case "pong":
            return frames.Pong(frame.pong)
        case "refuse":
            return frames.Refuse(frame.refuse[:1000])
    raise PeerProtocolError("a frame requires a body that this version knows; got none")


def _hello(hello: pb.Hello) -> frames.Hello:
    return frames.Hello(
        hello.version,
        hello.cluster,
        hello.tau_ms,
        hello.site,
        hello.peer,
        hello.life,
        hello.peer_life,
        hello.resets,
        hello.expects,
        hello.about,
        hello.folder,
        tuple(hello.lives[-LIVES_TOLD_MAX:]),
    )
