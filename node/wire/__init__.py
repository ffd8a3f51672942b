"""Core messages and frames to bytes and back. The only translator, and pure: the simulator uses it too.

Every field that comes in is checked for presence and range here, so that the
core sees only values it could have made itself.
"""

from node.wire.about import decode_about, encode_about
from node.wire.frames import RareFrame, decode_frame, encode_frame
from node.wire.messages import decode_message, encode_message, kind_of

__all__ = [
    "RareFrame",
    "decode_about",
    "decode_frame",
    "decode_message",
    "encode_about",
    "encode_frame",
    "encode_message",
    "kind_of",
]
