"""What small messages cost on the wire: ``python -m bench.framing``.

A thousand ticks of 100 ms pass between two sites. Each kind of message is sent alone
on a fresh connection, and then all of a tick together, as they leave a site. What is
counted is what the ledger counts: compressed frames, checksums, gRPC and HTTP/2. A
message that is written after one came the other way also gives back window to the
peer: the last columns are with that, as it is when sites talk to each other all the time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from node.codec import FrameReader, FrameWriter
from node.core.encoding.ints import encode_ints
from node.core.encoding.rows import encode_rows
from node.core.links.link_frames import Ack, Frame, Part
from node.core.links.messages import AskMatches, Done, KeyAnswer, Message, Sync
from node.core.streams.ticks import Span
from node.wire import decode_message, encode_message, kind_of
from planner.algorithms.http2 import WINDOW_UPDATE_BYTES, framing_bytes

QUERY_ID = "frankfurt-1760000000-1"
TICK_FIRST = 17_600_000_000
TAU_MS = 100
SEALED_US_FIRST = 1_760_000_000_123_456
DISTINCT = 1_000_000
SLOTS = 20_000

Made = Callable[[int, np.random.Generator, int], Message]


def ask(tick: int, rng: np.random.Generator, keys: int) -> Message:
    """SM-S1 and SM-D2: the keys of a walk."""
    low = (TICK_FIRST + tick) * TAU_MS + int(rng.integers(0, 5))
    high = (TICK_FIRST + tick + 1) * TAU_MS - 1 - int(rng.integers(0, 5))
    return AskMatches(QUERY_ID, "o", _span(tick), 0, _sealed(tick, rng), low, high, 0, _keys(rng, keys))


def answer(tick: int, rng: np.random.Generator, keys: int) -> Message:
    """SM-D2: which of them match; one in five does."""
    return KeyAnswer(QUERY_ID, "o", _span(tick), 0, np.packbits(rng.random(keys) < 0.2).tobytes())


def heartbeat(tick: int, _: np.random.Generator, __: int) -> Message:
    """A window in which nothing happened."""
    return _sync(tick, b"", b"")


def sync(tick: int, rng: np.random.Generator, keys: int) -> Message:
    """SM-D1 and SM-S2: keys that came and keys that went."""
    dead = np.sort(rng.choice(SLOTS, keys, replace=False)).astype(np.int64)
    return _sync(tick, _keys(rng, keys), encode_ints(dead))


def _sync(tick: int, born: bytes, dead: bytes) -> Message:
    before = (TICK_FIRST + tick - 600) * TAU_MS
    return Sync(1, TICK_FIRST + tick + 1, before, 0, b"", born, dead, b"")


def done(tick: int, _: np.random.Generator, __: int) -> Message:
    """What the sink tells a site."""
    return Done(QUERY_ID, (("o", TICK_FIRST + tick), ("p", TICK_FIRST + tick - 1)))


def _span(tick: int) -> Span:
    return Span(TICK_FIRST + tick, TICK_FIRST + tick + 1)


def _sealed(tick: int, rng: np.random.Generator) -> int:
    return SEALED_US_FIRST + tick * TAU_MS * 1_000 + int(rng.integers(0, 3_000))


def _keys(rng: np.random.Generator, keys: int) -> bytes:
    values = np.sort(rng.choice(DISTINCT, keys, replace=False)).astype(np.int64)
    return encode_rows(pa.RecordBatch.from_arrays([pa.array(values)], ["key"]))


class Wire:
    """One direction of a connection; what is sent is also read, or it would not count."""

    def __init__(self) -> None:
        self._writer = FrameWriter()
        self._reader = FrameReader()
        self._seq = 1
        self.payload = 0
        self.framing = 0

    def send(self, frames: list[Frame]) -> None:
        read: list[Frame] = []
        for shipment in self._writer.write(frames):
            self.payload += len(shipment)
            self.framing += framing_bytes(len(shipment))
            read += self._reader.read(shipment)
        if read != frames:
            raise AssertionError("what was sent did not arrive")

    def part(self, message: Message, ack: int) -> Part:
        packed = encode_message(message)
        if decode_message(packed) != message:
            raise AssertionError("a message did not come back")
        self._seq += 1
        return Part(self._seq - 1, kind_of(message), False, packed.payload, ack, packed.numbers)


def table(ticks: int, keys: int) -> Iterator[tuple[str, float, float, float]]:
    """Kind, bytes of ours, bytes of gRPC and HTTP/2, number of keys; all for one message, or one tick."""
    kinds: dict[str, tuple[Made, int]] = {
        f"AskMatches, {keys} keys": (ask, keys),
        f"KeyAnswer, {keys} keys": (answer, keys),
        "Sync, nothing new": (heartbeat, 0),
        f"Sync, {keys} born, {keys} dead": (sync, 2 * keys),
        "Done, two heads": (done, 0),
    }
    for name, (make, count) in kinds.items():
        wire, rng = Wire(), np.random.default_rng(1)
        for tick in range(ticks):
            wire.send([wire.part(make(tick, rng, keys), ack=tick + 1)])
        yield name, wire.payload / ticks, wire.framing / ticks, count
    wire = Wire()
    for tick in range(ticks):
        wire.send([Ack(tick + 1)])
    yield "Ack alone", wire.payload / ticks, wire.framing / ticks, 0
    wire, rng = Wire(), np.random.default_rng(1)
    for tick in range(ticks):
        made = [make(tick, rng, keys) for make in (ask, answer, sync, done)]
        wire.send([wire.part(message, ack=4 * tick + 1) for message in made])
    yield "a tick: ask, answer, sync, done", wire.payload / ticks, wire.framing / ticks, 4 * keys


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=1_000)
    parser.add_argument("--keys", type=int, default=30)
    arguments = parser.parse_args()
    print(f"{'bytes per message':36}{'ours':>8}{'gRPC':>8}{'one way':>9}{'per key':>9}{'two-way':>9}{'per key':>9}")
    for name, payload, framing, count in table(arguments.ticks, arguments.keys):
        row = f"{name:36}{payload:8.1f}{framing:8.1f}"
        for total in (payload + framing, payload + framing + WINDOW_UPDATE_BYTES):
            row += f"{total:9.1f}" + (f"{total / count:9.2f}" if count else " " * 9)
        print(row.rstrip())


if __name__ == "__main__":
    main()
