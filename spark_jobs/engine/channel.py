"""Messages between the daemon and Spark's Python workers, over a socket.

A message is a small pickled head and bodies of any size; neither end copies them together. Both ends first prove
that they know the secret, without telling it; before that nothing is unpickled, so a stranger can do no more than
waste a connection. What is said is not encrypted.
"""

from __future__ import annotations

import contextlib
import hmac
import pickle
import secrets
import socket
import struct
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

Address = str | tuple[str, int]
Body = bytes | memoryview

_COUNT = struct.Struct("<Q")
_LENGTH = struct.Struct("<Q")
#: Arrow reads in place what begins at a multiple of this.
_ALIGNED = 64
_PADDING = bytes(_ALIGNED)
#: A system call takes so many pieces at most, on every system.
_PIECES = 512
_PROOF_BYTES = 32
#: Who connects has so long to prove what it knows.
_PROOF_S = 30.0
_DAEMON, _WORKER = b"daemon", b"worker"


class StrangerError(OSError):
    """Who is at the other end does not know the secret."""


class Channel:
    """One end. Used by one thread, but for ``shutdown``, which wakes that thread with an error."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        if link.family != socket.AF_UNIX:
            # Small messages leave at once, and a machine that is gone is noticed.
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def send(self, head: object, bodies: Sequence[Body] = ()) -> None:
        """Raises OSError if the other end is gone."""
        first = pickle.dumps(head, protocol=5)
        lengths = [len(first), *map(len, bodies)]
        front = b"".join((_COUNT.pack(len(lengths)), *map(_LENGTH.pack, lengths)))
        pieces: list[Body] = [front + _padding(len(front)) + first + _padding(len(first))]
        for body in bodies:
            pieces += (body, _padding(len(body)))
        self._send_all(pieces)

    def receive(self) -> tuple[Any, list[memoryview]]:
        """The head and the bodies of a message. Raises OSError if the other end is gone."""
        (count,) = _COUNT.unpack(self._take(_COUNT.size))
        size = count * _LENGTH.size
        table = self._take(size + len(_padding(_COUNT.size + size)))
        lengths = [_LENGTH.unpack_from(table, number * _LENGTH.size)[0] for number in range(count)]
        content = self._take(sum(_padded(length) for length in lengths))
        parts, start = [], 0
        for length in lengths:
            parts.append(content[start : start + length])
            start += _padded(length)
        return pickle.loads(parts[0]), parts[1:]  # noqa: S301 - both ends know the secret

    def shutdown(self) -> None:
        """Nothing is sent or received any more."""
        with contextlib.suppress(OSError):  # it is so already
            self._link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._link.close()

    def prove(self, secret: bytes, mine: bytes, theirs: bytes) -> None:
        """Show that we know the secret, and see that the other end does. Raises OSError if it does not."""
        self._link.settimeout(_PROOF_S)
        nonce = secrets.token_bytes(_PROOF_BYTES)
        self._send_all([nonce])
        other = bytes(self._take(_PROOF_BYTES))
        # Each proof says whose it is: one that is sent back is not one's own.
        self._send_all([hmac.digest(secret, mine + nonce + other, "sha256")])
        expected = hmac.digest(secret, theirs + other + nonce, "sha256")
        if not hmac.compare_digest(bytes(self._take(_PROOF_BYTES)), expected):
            raise StrangerError("the other end of a channel must know the secret; it does not")
        self._link.settimeout(None)

    def _send_all(self, pieces: Sequence[Body]) -> None:
        left = deque(memoryview(piece).cast("B") for piece in pieces if len(piece))
        while left:
            sent = self._link.sendmsg(list(islice(left, _PIECES)))
            while left and sent >= len(left[0]):
                sent -= len(left.popleft())
            if sent:
                left[0] = left[0][sent:]

    def _take(self, size: int) -> memoryview:
        content = memoryview(pa.allocate_buffer(size)).cast("B")
        got = 0
        while got < size:
            # Beyond 2 GiB a system call gives less than it is asked for.
            count = self._link.recv_into(content[got:])
            if not count:
                raise ConnectionError("the other end of a channel is gone")
            got += count
        return content


def connect(address: Address, secret: bytes) -> Channel:
    """A worker's end. Raises OSError if the daemon cannot be reached, or is not ours."""
    if isinstance(address, str):
        link = socket.socket(socket.AF_UNIX)
        link.connect(address)
    else:
        link = socket.create_connection(address, _PROOF_S)
    try:
        channel = Channel(link)
        channel.prove(secret, _WORKER, _DAEMON)
    except BaseException:
        link.close()
        raise
    return channel


def admit(link: socket.socket, secret: bytes) -> Channel:
    """The daemon's end of a connection that somebody made. Raises OSError if it is a stranger's."""
    channel = Channel(link)
    channel.prove(secret, _DAEMON, _WORKER)
    return channel


def _padded(length: int) -> int:
    return -(-length // _ALIGNED) * _ALIGNED


def _padding(length: int) -> bytes:
    return _PADDING[: _padded(length) - length]
