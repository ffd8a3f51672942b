"""Mutated bytes for the decoders that end in Arrow's C++: run in a process of its own, where a crash shows.

``python -m tests.unit.fuzz rows|about|prepare|copies|open COUNT`` prints how many mutants were
refused and how many were taken. Anything but PeerProtocolError is printed and fails.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from node.core.encoding.rows import decode_rows, encode_rows
from node.core.errors import PeerProtocolError
from node.core.events import BatchLogged, RowsArrived
from node.core.limits import Limits
from node.core.links.link_frames import Packed
from node.core.links.messages import OpenCopy, Prepare, Profiles
from node.core.site import Site
from node.core.streams.stream import LocalStream
from node.wire import decode_about, decode_message, encode_about, encode_message
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy, serves
from planner.model.implication import implies
from planner.model.query import Algorithm, Call, ColumnRef, Literal, Sequence, Step, StreamInfo
from planner.model.time_unit import TimeUnit

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("when", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(12, 2)),
        ("list", pa.list_(pa.int32())),
        ("pair", pa.struct([("x", pa.float64()), ("y", pa.large_binary())])),
        ("word", pa.string_view()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("size", pa.float64()),
        ("code", pa.binary(5)),
        ("same", pa.int16()),
        ("city", pa.large_string()),
    ]
)


def some_rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "ts": number,
                "text": None if number == 3 else "s" * number,
                "flag": number % 2 == 0,
                "when": number,
                "price": number,
                "list": list(range(number)) if number != 5 else None,
                "pair": {"x": number / 3, "y": b"y" * number},
                "word": "w" * (number * 4),
                "kind": "ab"[number % 2],
                "size": number / 4,
                "code": bytes((number,)) * 5,
                "same": number,
                "city": ["Ulm", "Bonn", None][number % 3],
            }
            for number in [*range(8), *range(8), *range(8)]
        ],
        schema=SCHEMA,
    )


def streams() -> tuple[StreamInfo, ...]:
    return (
        StreamInfo("left", "ash", SCHEMA, "ts", TimeUnit.MS),
        StreamInfo("right", "bow", pa.schema([("when", pa.timestamp("ns"))]), "when", TimeUnit.NS),
    )


def prepare() -> Prepare:
    sequences = (Sequence("a", (Step("b", Algorithm.SP_S),)), Sequence("b", (Step("a", Algorithm.SP_D),)))
    return Prepare("q1", "SELECT 1", "ash", sequences, streams())


def mutate(rng: random.Random, data: bytes) -> bytes:
    """A few flips, overwrites, cuts or insertions."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(out)) if out else 0
        match rng.randrange(6):
            case 0 if out:
                out[at] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                out[at : at + 8] = rng.choice([b"\xff" * 8, b"\0" * 8, (2**31 - 1).to_bytes(8, "little")])
            case 3:
                del out[at : at + rng.choice([1, 8, len(out)])]
            case 4:
                out[at:at] = rng.randbytes(rng.choice([1, 4, 8]))
            case _:
                other = rng.randrange(len(out)) if out else 0
                out[at : at + 4] = out[other : other + 4]
    return bytes(out)


def take_rows(data: bytes) -> None:
    rows = decode_rows(data, SCHEMA)
    rows.validate(full=True)
    assert rows.schema == SCHEMA
    rows.drop_columns(["when"]).to_pydict()  # Python has no words for most instants


def take_about(data: bytes) -> None:
    for info in decode_about(data):
        assert info.ts in info.schema.names
        str(info)


def take_prepare(data: bytes) -> None:
    message = decode_message(Packed(data))
    if isinstance(message, Prepare):
        for info in message.streams:
            str(info)


def copies() -> Profiles:
    column = ColumnRef("left", "text")
    where = Call("in", (column, Literal("a", pa.string()), Literal(None, pa.string())), pa.bool_())
    priced = Call(">", (ColumnRef("left", "price"), Literal(Decimal("1.50"), pa.decimal128(12, 2))), pa.bool_())
    both = Call("and", (where, priced), pa.bool_())
    copy = RunningCopy(CopyKind.MIXED, "left", ("text",), ("text", "flag"), both, CopyAxis.TIME, "ash", "bow")
    return Profiles("q1", (), copies=(copy, replace(copy, kind=CopyKind.KEYS, filter=None)))


def take_copies(data: bytes) -> None:
    message = decode_message(Packed(data))
    if isinstance(message, Profiles):
        for copy in message.copies:
            serves(copy, copies().copies[0])
            implies(copy.filter, copies().copies[0].filter)


def opened() -> OpenCopy:
    column = ColumnRef("left", "text")
    known = Call("in", (column, Literal("a", pa.string()), Literal("sss", pa.string())), pa.bool_())
    large = Call(">", (ColumnRef("left", "same"), Literal(3, pa.int64())), pa.bool_())
    where = Call("or", (known, Call("not", (large,), pa.bool_())), pa.bool_())
    spec = RunningCopy(CopyKind.MIXED, "left", ("text",), ("text", "flag", "same"), where, CopyAxis.TIME, "ash", "bow")
    return OpenCopy("q1", 3, 0, 0, spec)


def take_open(data: bytes) -> None:
    """What can be decoded is given to a site that has such a stream, which gets tuples then."""
    message = decode_message(Packed(data))
    if not isinstance(message, OpenCopy):
        return
    site = Site("ash", 10, [LocalStream(streams()[0])], Limits())
    site.arrangements.on_open("bow", message)
    rows = some_rows().slice(0, 8)
    site.handle([RowsArrived("left", rows, rows.column("ts"), 10, False)], 1)
    site.handle([BatchLogged("left", 1)], 2)


SUBJECTS: dict[str, tuple[Callable[[], bytes], Callable[[bytes], None]]] = {
    "rows": (lambda: encode_rows(some_rows()), take_rows),
    "about": (lambda: encode_about(streams()), take_about),
    "prepare": (lambda: encode_message(prepare()).payload, take_prepare),
    "copies": (lambda: encode_message(copies()).payload, take_copies),
    "open": (lambda: encode_message(opened()).payload, take_open),
}


def main(subject: str, count: int) -> int:
    faulthandler.enable()
    whole, take = SUBJECTS[subject]
    take(whole())
    tally: Counter[str] = Counter()
    for seed in range(count):
        data = mutate(random.Random(seed), whole())
        try:
            take(data)
            tally["taken"] += 1
        except PeerProtocolError:
            tally["refused"] += 1
        except BaseException as error:
            if not tally[type(error).__name__]:
                print(f"{subject} seed {seed}:", file=sys.stderr)
                traceback.print_exc()
            tally[type(error).__name__] += 1
    print(dict(tally))
    return 0 if tally["refused"] + tally["taken"] == count else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
