"""Records as real systems have them, and keys of two streams that match as often as one wants.

Contents are made to compress like real ones, not like constants and not like noise:
amounts with cents, counts, coordinates, a few states, addresses and messages built
from words of a Zipf distribution, user agents, hexadecimal ids. Everything follows
from the seed.

The width of a tuple is that of a plain row: 8 bytes for the event time, the key and
each number of 64 bits, 4 for those of 32, and the bytes of its texts without their
lengths. The last text is as long as the wanted width needs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SEED = 20_260_101
#: Keys are spread over so many numbers, so that differences of sorted ones are not small by chance.
_KEY_SPACE = 2**40
_STATES = ("paid", "shipped", "pending", "delivered", "cancelled", "returned", "on hold")
_STATE_ODDS = (0.42, 0.24, 0.13, 0.12, 0.05, 0.03, 0.01)
_COUNTRIES = ("DE", "US", "SG", "FR", "GB", "IN", "BR", "JP")
_SYLLABLES = (
    "ka",
    "re",
    "lo",
    "mi",
    "ten",
    "sur",
    "dal",
    "vo",
    "pri",
    "an",
    "el",
    "in",
    "or",
    "ber",
    "gan",
    "shi",
    "st",
)


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """How the keys of two streams are drawn.

    Each stream has a domain of ``distinct`` keys. A share ``rate`` of its tuples takes keys that both have,
    the others take keys of its own, evenly. There are ``rate * distinct`` keys in common at most; of these
    so many are in use at a time that each comes about ``repeats`` times per window and stream, and stays
    in use for ``life`` windows. With ``repeats`` None all of them are always in use.
    """

    rate: float
    distinct: int
    repeats: float | None = 10.0
    life: float = 5.0


@dataclass(frozen=True, slots=True)
class Stream:
    """Event times (ascending, in ms since the start) and keys of one stream's tuples."""

    ts: Ints
    keys: Ints


@dataclass(frozen=True, slots=True)
class Matches:
    """What a join by key and time distance has to give; computed apart from all other code."""

    rows: int
    #: Per stream: which tuples are in some result, and which have a match that came before them.
    in_result: dict[str, Mask]
    as_head: dict[str, Mask]


# -- keys ---------------------------------------------------------------------------------------


def pair_of_streams(plan: KeyPlan, per_tick: int, ticks: int, tau_ms: int, window_ms: int) -> dict[str, Stream]:
    """Streams ``a`` and ``b``."""
    rng = np.random.default_rng([SEED, plan.distinct, round(1e4 * plan.rate)])
    shared, live, life_ms = _shared(plan, per_tick * window_ms / tau_ms, ticks * tau_ms, window_ms)
    own = plan.distinct - shared if plan.rate < 1 else 0
    drawn = {}
    for name, first in (("a", shared), ("b", shared + own)):
        ts = _times(rng, per_tick, ticks, tau_ms)
        oldest = np.zeros(len(ts), np.int64) if life_ms is None else (ts * (live / life_ms)).astype(np.int64)
        common = oldest + rng.integers(0, live, len(ts))
        mine = first + rng.integers(0, max(1, own), len(ts))
        drawn[name] = Stream(ts, np.where(rng.random(len(ts)) < plan.rate, common, mine))
    # Only keys that were drawn get their number: a domain may be much larger than the streams.
    used, places = np.unique(np.concatenate([drawn["a"].keys, drawn["b"].keys]), return_inverse=True)
    ids = _distinct_ids(rng, len(used))[places]
    split = len(drawn["a"].ts)
    return {"a": Stream(drawn["a"].ts, ids[:split]), "b": Stream(drawn["b"].ts, ids[split:])}


def _shared(plan: KeyPlan, window_rows: float, length_ms: int, window_ms: int) -> tuple[int, int, float | None]:
    """How many keys the streams have in common, how many of them at a time, and for how long each (None: always)."""
    most = max(1, round(plan.rate * plan.distinct))
    if plan.repeats is None or (live := max(1, round(plan.rate * window_rows / plan.repeats))) >= most:
        return most, most, None
    life_ms = plan.life * window_ms
    return live + int(length_ms * live / life_ms) + 1, live, life_ms


def _distinct_ids(rng: np.random.Generator, count: int) -> Ints:
    ids = np.empty(0, np.int64)
    while len(ids) < count:
        ids = np.unique(np.concatenate([ids, rng.integers(1, _KEY_SPACE, count - len(ids) + 8)]))
    return rng.permutation(ids)[:count]


def _times(rng: np.random.Generator, per_tick: int, ticks: int, tau_ms: int) -> Ints:
    within = np.sort(rng.integers(0, tau_ms, (ticks, per_tick)), axis=1)
    return (within + tau_ms * np.arange(ticks)[:, None]).reshape(-1)


def matches_of(streams: dict[str, Stream], a_window_ms: int, b_window_ms: int) -> Matches:
    """A pair is a row if its keys are equal and the earlier is in its window as seen from the later; of a tie, b is."""
    a, b = streams["a"], streams["b"]
    _, codes = np.unique(np.concatenate([a.keys, b.keys]), return_inverse=True)
    room = 2 * (int(max(a.ts[-1], b.ts[-1])) + max(a_window_ms, b_window_ms) + 1)
    codes = codes.astype(np.int64) * room
    mine, theirs = codes[: len(a.ts)] + a.ts, codes[len(a.ts) :] + b.ts
    ties = {"a": _between(theirs, mine, mine), "b": _between(mine, theirs, theirs)}
    a_heads = _between(theirs, mine - b_window_ms, mine) - ties["a"]
    b_heads = _between(mine, theirs - a_window_ms, theirs)
    seen = {
        "a": _between(theirs, mine, mine + a_window_ms),
        "b": _between(mine, theirs, theirs + b_window_ms) - ties["b"],
    }
    return Matches(
        int(a_heads.sum() + b_heads.sum()),
        {"a": a_heads + seen["a"] > 0, "b": b_heads + seen["b"] > 0},
        {"a": a_heads > 0, "b": b_heads > 0},
    )


def _between(values: Ints, low: Ints, high: Ints) -> Ints:
    """How many values are from ``low`` up to and with ``high``, for each pair of bounds."""
    ordered = np.sort(values)
    count: Ints = np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")
    return count


# -- contents -----------------------------------------------------------------------------------


def record_batch(stream: Stream, width: int, name: str, start_ms: int = 0) -> pa.RecordBatch:
    """The stream's tuples, about ``width`` bytes each; event times count from ``start_ms``."""
    contents = _contents(name, len(stream.ts), width)
    columns = {"ts": pa.array(stream.ts + start_ms), "key": pa.array(stream.keys), **contents}
    return pa.RecordBatch.from_pydict(columns)


def plain_width(rows: pa.RecordBatch) -> float:
    """Mean bytes of a tuple as a plain row."""
    return float(sum(_plain_bytes(column) for column in rows.columns) / rows.num_rows)


def _plain_bytes(column: pa.Array) -> int:
    if pa.types.is_string(column.type):
        return int(pc.sum(pc.binary_length(column)).as_py())
    return len(column) * int(column.type.bit_width) // 8


@functools.lru_cache(maxsize=2)
def _contents(name: str, count: int, width: int) -> dict[str, pa.Array]:
    """All columns but the event time and the key. Wider tuples have what narrower ones have, and more."""
    rng = np.random.default_rng([SEED, ord(name), width, count])
    columns: dict[str, pa.Array] = {
        "amount": pa.array(np.round(rng.lognormal(3.5, 1.1, count), 2)),
        "quantity": pa.array(rng.geometric(0.4, count).astype(np.int32)),
        "state": _pick(rng, _STATES, count, _STATE_ODDS),
    }
    if width >= 100:
        columns["customer"] = pa.array(100_000 + rng.zipf(1.3, count).clip(max=900_000))
        columns["seconds"] = pa.array(np.round(rng.gamma(2.0, 0.12, count), 3))
        columns["trace"] = _hex(rng, count, 16)
    if width >= 400:
        columns["latitude"] = pa.array(np.round(rng.normal(48.1, 4.0, count), 5))
        columns["longitude"] = pa.array(np.round(rng.normal(9.2, 6.0, count), 5))
        columns["country"] = _pick(rng, _COUNTRIES, count)
        columns["session"] = _hex(rng, count, 32)
        columns["agent"] = _pick(rng, _agents(), count)
        columns["street"] = _sentences(rng, count, 40)
    used = 16 + sum(_plain_bytes(column) for column in columns.values()) / count
    columns["note" if width >= 400 else "path"] = _sentences(rng, count, max(4, width - used))
    return columns


def _pick(
    rng: np.random.Generator, values: tuple[str, ...], count: int, odds: tuple[float, ...] | None = None
) -> pa.Array:
    return pa.array(values).take(pa.array(rng.choice(len(values), count, p=odds)))


def _hex(rng: np.random.Generator, count: int, length: int) -> pa.Array:
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[rng.integers(0, 16, count * length)]
    offsets = np.arange(0, count * length + 1, length, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


@functools.cache
def _vocabulary() -> tuple[pa.Array, npt.NDArray[np.float64]]:
    """Four thousand words, numbers among them, and how often each comes."""
    rng = np.random.default_rng(SEED)
    words = {"".join(rng.choice(_SYLLABLES, rng.integers(1, 5))) for _ in range(9_000)}
    ordered = [*sorted(words)[:3_500], *(str(number) for number in rng.integers(1, 99_999, 500))]
    odds = 1.0 / (np.arange(len(ordered)) + 6.0)
    return pa.array(rng.permutation(np.array(ordered, dtype=object))), odds / odds.sum()


@functools.cache
def _agents() -> tuple[str, ...]:
    rng = np.random.default_rng(SEED)
    systems = ("X11; Linux x86_64", "Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7")
    numbers = rng.integers((0, 90, 0, 0), (3, 140, 7000, 250), (150, 4))
    return tuple(f"Mozilla/5.0 ({systems[s]}) AppleWebKit/537.36 Chrome/{v}.0.{x}.{y}" for s, v, x, y in numbers)


def _sentences(rng: np.random.Generator, count: int, mean_bytes: float) -> pa.Array:
    """Texts of words; short ones look like paths, long ones like messages."""
    words, odds = _vocabulary()
    lengths = pc.binary_length(words).to_numpy() + 1
    per_text = (mean_bytes + 1) / float((lengths * odds).sum())
    many = np.maximum(1, rng.poisson(per_text, count)) if per_text > 4 else _rounded(rng, per_text, count)
    offsets = np.concatenate([[0], np.cumsum(many)]).astype(np.int32)
    picked = words.take(pa.array(rng.choice(len(words), int(offsets[-1]), p=odds)))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), picked), " " if per_text > 6 else "/")


def _rounded(rng: np.random.Generator, mean: float, count: int) -> Ints:
    whole: Ints = np.maximum(1, np.floor(mean + rng.random(count)).astype(np.int64))
    return whole
