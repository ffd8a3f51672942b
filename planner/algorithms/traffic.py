"""What messages of each sort cost on the wire; each algorithm puts its traffic together of these.

The constants are measured (``bench.framing``, ``bench/results/bytes.md``): what a message costs however little is
in it, and what gRPC adds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, expm1, log2

from planner.algorithms.framing import FRAMING_BYTES
from planner.algorithms.kinds import Kind
from planner.algorithms.step_stats import JoinStats, KeysStats

#: Our own part of a message without its data: numbers, times, checksum, compressed.
MESSAGE_BYTES = 17.0
#: A walk that ended without rows rides on another message.
ENDING_BYTES = 6.0
#: What a value costs when the one of the row before is the same: a carry repeats the head's columns for each match.
REPEATED_SHARE = 0.15

#: Keys that come once die in the order in which they were born, so their numbers are near each other; others do not.
_DEAD_BYTES = 0.15
_DEAD_OUT_OF_ORDER_BYTES = 2.5
#: Rows compress worse when few are in a message: a row alone costs up to _ALONE_BYTES more, and _FEW_ROWS rows more in
#: the message save most of that.
_ALONE_BYTES = 30.0
_FEW_ROWS = 4.0

#: Bytes of each kind.
Parts = tuple[tuple[Kind, float], ...]


def in_messages(row_bytes: float, rows: float, messages: float, measured_in: float) -> float:
    """Bytes of rows spread over messages, if a row costs ``row_bytes`` in messages of ``measured_in`` rows.

    It costs more in messages that have fewer.
    """
    alone = -_ALONE_BYTES * expm1(-row_bytes / _ALONE_BYTES)
    return rows * (row_bytes + alone * max(0.0, _few(rows / max(1e-9, messages)) - _few(measured_in)))


def _few(rows: float) -> float:
    return exp(-(max(1.0, rows) - 1) / _FEW_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of a row of the carry, a key of it, and a tuple of the stream, as they travel."""

    row_bytes: float
    key_bytes: float
    tuple_bytes: float
    #: What of a row of the carry are the head's columns, which repeat where it has several matches.
    repeated_bytes: float
    #: Rows in the batches in which the carry's and the stream's sizes were measured.
    row_batch: float
    tuple_batch: float

    def rows_bytes(self, rows: float, heads: float, messages: float) -> float:
        """Bytes of rows of the carry, spread over messages."""
        size = in_messages(self.row_bytes, rows, messages, self.row_batch)
        return size - repeated_bytes(rows, heads, self.repeated_bytes)

    def tuples_bytes(self, tuples: float, messages: float) -> float:
        """Bytes of tuples of the stream, spread over messages."""
        return in_messages(self.tuple_bytes, tuples, messages, self.tuple_batch)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes per second: forward goes from the carry to the stream. Hops are the messages a walk waits for."""

    forward: Parts = ()
    backward: Parts = ()
    hops_forward: float = 0.0
    hops_backward: float = 0.0
    #: Messages in a second, one turn of the sites after the other: to the stream's site, back, to it again.
    turns: tuple[float, ...] = ()
    forward_bytes: float = field(init=False)
    backward_bytes: float = field(init=False)

    def __post_init__(self) -> None:
        """Sums are asked for again and again."""
        object.__setattr__(self, "forward_bytes", sum(size for _, size in self.forward))
        object.__setattr__(self, "backward_bytes", sum(size for _, size in self.backward))


def number_bytes(numbers: float, out_of: float) -> float:
    """Bytes of each of ``numbers`` ascending numbers below ``out_of``: less the denser they are."""
    if numbers <= 0:
        return 0.0
    return 0.1 + 0.28 * log2(max(1.0, out_of / numbers))


def repeated_bytes(rows: float, heads: float, repeated: float) -> float:
    """What rows of a carry cost less because the head's columns repeat where it has several matches."""
    return max(0.0, rows - heads) * repeated * (1 - REPEATED_SHARE)


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What a step between sites has to do for its walks. Figures are per second."""

    stats: JoinStats
    sizes: Sizes
    #: Tuples of the stream, and the keys of its window as it is kept.
    rate: float
    keys: KeysStats
    #: From one batch of the head to the next.
    batch_s: float


@dataclass(frozen=True, slots=True)
class CopyLoad:
    """What a copy of a stream's window has to be told. Figures are per second."""

    rate: float
    keys: KeysStats
    batch_s: float
    tuple_bytes: float
    key_bytes: float
    #: Of an event time, where the holder is told that of every tuple; 0 where it is not.
    time_bytes: float
    #: Tuples that are in the window as it is kept.
    kept: float


def message(kind: Kind, size: float, messages: float) -> Parts:
    """Bytes of a kind, with what its messages cost however little is in them."""
    return ((kind, size + messages * MESSAGE_BYTES), (Kind.FRAMING, messages * FRAMING_BYTES))


def asked(stats: JoinStats, sizes: Sizes) -> Parts:
    """A question about the keys of each batch: new ones as they are, known ones by numbers out of the book."""
    known = stats.keys - stats.keys_new
    batches = max(1e-9, stats.carry.batches)
    size = stats.keys_new * sizes.key_bytes + known * number_bytes(known / batches, stats.keys_noted)
    return message(Kind.KEYS, size, stats.carry.batches)


def matching(load: StepLoad, match: float) -> tuple[Parts, float]:
    """The rows that match, in the batches that have any. Of a head's rows some may match and others not."""
    carry, batch_s = load.stats.carry, load.batch_s
    each = max(1.0, carry.rows / max(1e-9, carry.heads))
    heads = carry.heads * (1 - (1 - min(1.0, match)) ** each)
    batches = -expm1(-heads * batch_s) / batch_s
    size = load.sizes.rows_bytes(carry.rows * match, heads, batches)
    return message(Kind.TUPLES, size, batches), batches


def keys_sync(load: CopyLoad) -> Parts:
    """Keys that came and went; where the window counts tuples and the holder needs their times, those too."""
    dead = _DEAD_BYTES + _DEAD_OUT_OF_ORDER_BYTES * (1 - min(1.0, load.keys.born / max(1e-9, load.rate)))
    size = load.keys.born * (load.key_bytes + dead) + load.rate * load.time_bytes
    return message(Kind.SYNC, size, 1 / load.batch_s)


def keys_snapshot(load: CopyLoad) -> float:
    """The keys of all tuples that are there; where the window counts tuples and the holder needs their times, those."""
    return load.keys.alive * load.key_bytes + load.kept * load.time_bytes


def summed(parts: Parts) -> Parts:
    """Each kind once."""
    total: dict[Kind, float] = {}
    for kind, size in parts:
        total[kind] = total.get(kind, 0.0) + size
    return tuple(total.items())
