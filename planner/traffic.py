"""What one step by each of the six algorithms sends, and what it takes to keep a replica: bytes on the wire.

Follows ``node.core.algorithms`` and ``node.core.replicas`` message by message. The constants are measured
(``bench.framing``, ``bench/results/bytes.md``): what a message costs however little is in it, and what gRPC adds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, expm1, log2

from planner.cost import Kind
from planner.estimate import JoinStats, KeysStats
from planner.framing import USUAL_BYTES
from planner.model import Algorithm

#: Our own part of a message without its data: numbers, times, checksum, compressed.
MESSAGE_BYTES = 17.0
#: What gRPC and HTTP/2 add to the usual message, which shares a shipment with others (``planner.framing``).
FRAMING_BYTES = USUAL_BYTES
#: A walk that ended without rows rides on another message.
ENDING_BYTES = 6.0
#: What a value costs when the one of the row before is the same: a carry repeats the head's columns for each match.
REPEATED_SHARE = 0.15

#: Tuples that come when a key is fetched: it was mostly born not long before.
_FETCHED_TUPLES = 1.5
#: Keys that come once die in the order in which they were born, so their numbers are near each other; others do not.
_DEAD_BYTES = 0.15
_DEAD_OUT_OF_ORDER_BYTES = 2.5
#: Rows alone in a message compress worse: by at most so many bytes, of which so many more rows save most.
_ALONE_BYTES = 30.0
_FEW_ROWS = 4.0

#: Processor time of a row in a step, both sites together (``bench/results/halves.md``).
CPU_S = {
    Algorithm.SP_S: 11e-6,
    Algorithm.SP_D: 9e-6,
    Algorithm.SM_S1: 18e-6,
    Algorithm.SM_S2: 19e-6,
    Algorithm.SM_D1: 13e-6,
    Algorithm.SM_D2: 15e-6,
}


def in_messages(row: float, rows: float, messages: float, measured_in: float) -> float:
    """Rows in so many messages, if one costs ``row`` in messages of ``measured_in``: more where they are fewer."""
    alone = -_ALONE_BYTES * expm1(-row / _ALONE_BYTES)
    return rows * (row + alone * max(0.0, _few(rows / max(1e-9, messages)) - _few(measured_in)))


def _few(rows: float) -> float:
    return exp(-(max(1.0, rows) - 1) / _FEW_ROWS)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a row of the carry, a key of it, and a tuple of the stream, as they travel."""

    row: float
    key: float
    tuple: float
    #: What of a row of the carry are the head's columns, which repeat where it has several matches.
    repeated: float
    #: Rows in the batches in which the carry's and the stream's sizes were measured.
    row_batch: float
    tuple_batch: float

    def rows_bytes(self, rows: float, heads: float, messages: float) -> float:
        """Rows of the carry in so many messages."""
        return in_messages(self.row, rows, messages, self.row_batch) - repeated_bytes(rows, heads, self.repeated)

    def tuples_bytes(self, tuples: float, messages: float) -> float:
        """Tuples of the stream in so many messages."""
        return in_messages(self.tuple, tuples, messages, self.tuple_batch)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes per second: forward goes from the carry to the stream. Hops are the messages a walk waits for."""

    forward: tuple[tuple[Kind, float], ...] = ()
    backward: tuple[tuple[Kind, float], ...] = ()
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
    """What one of so many ascending numbers costs: less the denser they are."""
    if numbers <= 0:
        return 0.0
    return 0.1 + 0.28 * log2(max(1.0, out_of / numbers))


def repeated_bytes(rows: float, heads: float, repeated: float) -> float:
    """What rows of a carry cost less because the head's columns repeat where it has several matches."""
    return max(0.0, rows - heads) * repeated * (1 - REPEATED_SHARE)


def step_traffic(
    algorithm: Algorithm, stats: JoinStats, sizes: Sizes, rate: float, keys: KeysStats, batch_s: float
) -> Traffic:
    """What a step between sites sends for its walks. The sync of its replica, if any, is not among it."""
    carry = stats.carry
    match algorithm:
        case Algorithm.SP_S:
            return Traffic(hops_backward=1)
        case Algorithm.SP_D:
            size = sizes.rows_bytes(carry.rows, carry.heads, carry.batches)
            return Traffic(_message(Kind.TUPLES, size, carry.batches), hops_forward=1, turns=(carry.batches,))
        case Algorithm.SM_S1:
            tuples = sizes.tuples_bytes(rate * stats.reduced_share, carry.batches)
            answers = _message(Kind.TUPLES, tuples, carry.batches)
            return Traffic(_asked(stats, sizes), answers, 1, 1, (carry.batches, carry.batches))
        case Algorithm.SM_S2:
            return _fetching(stats, sizes, rate, keys, batch_s)
        case Algorithm.SM_D1:
            matching, batches = _matching(stats, stats.match_kept, sizes, batch_s)
            return Traffic(matching, hops_forward=1, hops_backward=1, turns=(batches,))
        case Algorithm.SM_D2:
            # Where no key matches, the walk ends at the owner, without an answer.
            matching, batches = _matching(stats, stats.match, sizes, batch_s)
            bits = stats.keys / 8 * min(1.0, batches / max(1e-9, carry.batches))
            forward = _summed((*_asked(stats, sizes), *matching))
            return Traffic(forward, _message(Kind.KEY_ANSWERS, bits, batches), 2, 1, (carry.batches, batches, batches))


def _message(kind: Kind, size: float, messages: float) -> tuple[tuple[Kind, float], ...]:
    return ((kind, size + messages * MESSAGE_BYTES), (Kind.FRAMING, messages * FRAMING_BYTES))


def _asked(stats: JoinStats, sizes: Sizes) -> tuple[tuple[Kind, float], ...]:
    """New keys as they are, known ones by numbers out of the book."""
    known = stats.keys - stats.keys_new
    batches = max(1e-9, stats.carry.batches)
    size = stats.keys_new * sizes.key + known * number_bytes(known / batches, stats.keys_noted)
    return _message(Kind.KEYS, size, stats.carry.batches)


def _matching(
    stats: JoinStats, match: float, sizes: Sizes, batch_s: float
) -> tuple[tuple[tuple[Kind, float], ...], float]:
    """The rows that match, in the batches that have any. Of a head's rows some may match and others not."""
    each = max(1.0, stats.carry.rows / max(1e-9, stats.carry.heads))
    heads = stats.carry.heads * (1 - (1 - min(1.0, match)) ** each)
    batches = -expm1(-heads * batch_s) / batch_s
    size = sizes.rows_bytes(stats.carry.rows * match, heads, batches)
    return _message(Kind.TUPLES, size, batches), batches


def _fetching(stats: JoinStats, sizes: Sizes, rate: float, keys: KeysStats, batch_s: float) -> Traffic:
    """Tuples of keys that are asked for the first time are fetched, later ones come with the sync."""
    fetches = -expm1(-stats.fetched_keys * batch_s) / batch_s
    numbers = stats.fetched_keys * number_bytes(stats.fetched_keys / max(1e-9, fetches), keys.alive)
    tuples = rate * stats.mixed_share
    fetched = min(tuples, stats.fetched_keys * _FETCHED_TUPLES)
    pushed = ((Kind.SYNC, sizes.tuples_bytes(tuples - fetched, 1 / batch_s)),)
    back = (*_message(Kind.TUPLES, sizes.tuples_bytes(fetched, fetches), fetches), *pushed)
    asked_share = min(1.0, fetches / max(1e-9, stats.carry.batches))
    return Traffic(_message(Kind.KEYS, numbers, fetches), back, asked_share, 1 + asked_share, (fetches, fetches))


def full_sync(rate: float, tuple_bytes: float, batch_s: float) -> tuple[tuple[Kind, float], ...]:
    """SP-S, or a walk that starts elsewhere: every batch, the empty ones too."""
    return _message(Kind.SYNC, rate * tuple_bytes, 1 / batch_s)


def times_sync(rate: float, time_bytes: float, batch_s: float) -> tuple[tuple[Kind, float], ...]:
    """What W' of a count window is sent: event times, which a holder of W' or M needs of every tuple."""
    return _message(Kind.SYNC, rate * time_bytes, 1 / batch_s)


def keys_sync(
    rate: float, key_bytes: float, time_bytes: float, keys: KeysStats, batch_s: float
) -> tuple[tuple[Kind, float], ...]:
    """V and M: keys that came and went; for M of a count window the times of all tuples too."""
    dead = _DEAD_BYTES + _DEAD_OUT_OF_ORDER_BYTES * (1 - min(1.0, keys.born / max(1e-9, rate)))
    return _message(Kind.SYNC, keys.born * (key_bytes + dead) + rate * time_bytes, 1 / batch_s)


def _summed(parts: tuple[tuple[Kind, float], ...]) -> tuple[tuple[Kind, float], ...]:
    total: dict[Kind, float] = {}
    for kind, size in parts:
        total[kind] = total.get(kind, 0.0) + size
    return tuple(total.items())
