"""The queries and their streams, which change at a known time.

- **one shift**, **there and back**: three streams at three sites with the same key. At first few tuples of a have
  partners and all of b and c; then few of c; as selectivities shift in Fig. 8a and 8b of CLASH. Partners come within
  two seconds, in any order.
- **recorded**: two honeypots, of which two fortnights that are far apart follow each other: one in which the first has
  fewest visitors beside the second, and one in which it has most. (Of single days there is too little to plan by.)
- **narrow link**: streams stay as they are, and the link between two of them falls to a tenth of what it carried.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Ints = npt.NDArray[np.int64]

START_MS = 1_760_000_000_000
DAY_MS = 86_400_000
_RATE = 300
_NOTE_BYTES = 120
_FEW = 0.03
_APART_MS = 2_000
_DATA = Path(__file__).parents[3] / "shared" / "data"
_SPAN_DAYS, _BUSY_ROWS = 14, 4_000
#: The share of tuples that match there, and some more than they take.
_SOME = 0.3
_NARROW_BYTES_PER_S = 30_000.0


@dataclass(frozen=True)
class Case:
    """One query. Times are in seconds of event time from the start."""

    name: str
    #: What its streams are like, and what changes.
    about: str
    text: str
    home: str
    #: By stream: its site and its rows.
    streams: Mapping[str, tuple[str, pa.Table]]
    tau_ms: int
    epoch_ticks: int
    window_s: float
    #: When something changes.
    shifts_s: tuple[float, ...]
    length_s: float
    speed: float
    start_ms: int = START_MS
    #: What a link between the streams' sites carries, in bytes by the clock; it falls to a tenth at the shift.
    narrowed: tuple[str, str, float] | None = None

    @property
    def epoch_s(self) -> float:
        """Of event time."""
        return self.epoch_ticks * self.tau_ms / 1000

    @property
    def sites(self) -> tuple[str, ...]:
        """All of them, the home too."""
        return tuple(sorted({self.home, *(site for site, _ in self.streams.values())}))

    def phase(self, number: int) -> Case:
        """Only what is between two shifts."""
        bounds = (0.0, *self.shifts_s, self.length_s)
        first, last = (self.start_ms + round(1000 * at) for at in bounds[number : number + 2])
        within = (pc.field("ts") >= first) & (pc.field("ts") < last)
        cut = {name: (site, table.filter(within)) for name, (site, table) in self.streams.items()}
        return replace(self, name=f"{self.name} {number}", streams=cut, shifts_s=(), narrowed=None)


def _notes(random: np.random.Generator, count: int) -> pa.Array:
    letters = random.integers(97, 123, count * _NOTE_BYTES, dtype=np.uint8)
    offsets = np.arange(0, (count + 1) * _NOTE_BYTES, _NOTE_BYTES, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def _table(random: np.random.Generator, length_s: float, keys: Ints, apart_ms: int = 0) -> pa.Table:
    """A tuple of each key, at its place in time or up to so much later."""
    at_ms = np.arange(len(keys)) * 1000 // _RATE + random.integers(0, apart_ms + 1, len(keys))
    order = np.argsort(at_ms, kind="stable")
    order = order[at_ms[order] < 1000 * length_s]
    return pa.table({"ts": START_MS + at_ms[order], "k": keys[order], "note": _notes(random, len(order))})


def _alone(random: np.random.Generator, few: npt.NDArray[np.bool_], apart: int) -> Ints:
    """Keys of which those of the same place in another stream are the same: of all tuples, or of few."""
    places = np.arange(len(few))
    alone = few & (random.random(len(few)) > _FEW)
    return np.where(alone, places + apart * 10**9, places)


def shifting(name: str, home: str, shifts_s: tuple[float, ...], length_s: float, speed: float) -> Case:
    """Few of a find partners, or few of c."""
    random = np.random.default_rng(8)
    rows = round(_RATE * length_s)
    swapped = np.searchsorted(np.array(shifts_s), np.arange(rows) / _RATE, "right") % 2 == 1
    keys = {"sa": _alone(random, ~swapped, 1), "sb": np.arange(rows), "sc": _alone(random, swapped, 2)}
    tables = {name: _table(random, length_s, each, _APART_MS) for name, each in keys.items()}
    text = (
        "SELECT a.k AS k, a.note AS x, b.note AS y, c.note AS z FROM sa [RANGE 4 S] AS a "
        "JOIN sb [RANGE 4 S] AS b ON a.k = b.k JOIN sc [RANGE 4 S] AS c ON b.k = c.k AND a.k = c.k"
    )
    streams = {stream: (site, tables[stream]) for stream, site in (("sa", "ash"), ("sb", "bow"), ("sc", "cam"))}
    about = (
        f"Three streams of {_RATE} tuples a second. At first {_FEW:.0%} of a's tuples have partners, and all of b and "
        "c; after a shift few of c have, as selectivities shift in Fig. 8a and 8b of CLASH."
    )
    return Case(name, about, text, home, streams, 250, 20, 4.0, shifts_s, length_s, speed)


def narrow(length_s: float, speed: float) -> Case:
    """Streams at ash and bow, narrow rows wanted at cam: so the wide tuples that match go between ash and bow.

    How much a link carries is known when it was busy for some seconds by the clock. So an epoch is as long as usually,
    and time goes as fast as the clock.
    """
    random = np.random.default_rng(9)
    own = np.arange(round(_RATE * length_s))
    other = np.where(random.random(len(own)) < _SOME, own, own + 10**9)
    keys = {"sa": ("ash", own), "sb": ("bow", other)}
    streams = {name: (site, _table(random, length_s, each)) for name, (site, each) in keys.items()}
    text = "SELECT a.k AS k FROM sa [RANGE 4 S] AS a JOIN sb [RANGE 4 S] AS b ON a.k = b.k WHERE a.note < b.note"
    link = ("ash", "bow", _NARROW_BYTES_PER_S)
    shifts_s = (length_s * 3 / 8,)
    about = (
        f"Wide tuples at ash and bow, of which {_SOME:.0%} match, and narrow rows wanted at cam. The link between ash "
        f"and bow carries {_NARROW_BYTES_PER_S / 1000:g} kB in a second of event time, then a tenth of that."
    )
    return Case("narrow link", about, text, "cam", streams, 250, 40, 4.0, shifts_s, length_s, speed, narrowed=link)


def recorded(speed: float) -> Case | None:
    """None where the recordings are not."""
    folder = Path(os.environ.get("NARROWS_DATA", _DATA)) / "honeypots_aws"
    if not folder.is_dir():
        return None
    names = {"tokyo": "ash", "oregon": "bow"}
    tables = {name: pq.read_table(folder / f"{name}.parquet") for name in names}
    first_ms = START_MS // DAY_MS * DAY_MS
    days = {name: np.asarray(table.column("ts")) // DAY_MS for name, table in tables.items()}
    streams = {}
    chosen = _two_spans(days)
    for name, site in names.items():
        parts = []
        for place, first_day in enumerate(chosen):
            within = (days[name] >= first_day) & (days[name] < first_day + _SPAN_DAYS)
            part = tables[name].filter(pa.array(within))
            moved = pc.add(part.column("ts"), first_ms + (place * _SPAN_DAYS - first_day) * DAY_MS)
            parts.append(part.set_column(part.schema.get_field_index("ts"), "ts", moved))
        streams[name] = (site, pa.concat_tables(parts))
    text = (
        "SELECT t.key AS source, t.dst_port AS x, o.dst_port AS y, o.proto AS p FROM tokyo [RANGE 12 H] AS t "
        "JOIN oregon [RANGE 12 H] AS o ON t.key = o.key"
    )
    span_s = _SPAN_DAYS * DAY_MS / 1000
    about = (
        f"Two honeypots, of which two spans of {_SPAN_DAYS} days follow each other that are months apart: one in which "
        "t has fewest visitors beside o, and one in which it has most."
    )
    return Case(
        "recorded", about, text, "cam", streams, 7_200_000, 12, 43_200.0, (span_s,), 2 * span_s, speed, first_ms
    )


def _two_spans(days: Mapping[str, Ints]) -> tuple[int, int]:
    """Of those with many rows at both the one in which the first has fewest beside the second, and most: first days."""
    begins = range(max(int(each.min()) for each in days.values()), min(int(each.max()) for each in days.values()), 7)
    counts = {day: [int(((each >= day) & (each < day + _SPAN_DAYS)).sum()) for each in days.values()] for day in begins}
    busy = [day for day in begins if min(counts[day]) >= _BUSY_ROWS]

    def share(day: int) -> float:
        first, second = counts[day]
        return first / second

    return min(busy, key=share), max(busy, key=share)
