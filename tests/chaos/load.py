"""What goes through a cluster while things happen to it: streams, queries over them, and what they must give.

Keys live for a few seconds of event time each, as orders do. So each key has few tuples however long the run, and
the oracle, which looks at every combination of equal keys, copes with minutes of load.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.e2e.harness import Stream, oracle_window, window_text, write_cluster
from tests.oracle.oracle import OracleStream, expected, expected_pairs

SITES = ("alpha", "beta", "gamma")
LEFT, RIGHT, LIVE = "left", "right", "live"
#: Of each stream; scenarios that are about windows know that the longest is two seconds.
WINDOWS = {LEFT: "1 SECONDS", RIGHT: "2 SECONDS", LIVE: "1 SECONDS"}
#: In the past: what is ahead of the clock is set aside where Spark reads it.
BASE_MS = 1_700_000_000_000
#: A key is used for about so long; there are so many of them for each tuple of a second: about every second is joined.
KEY_MS = 2_000
KEYS_PER_TUPLE = 3
#: Of each tuple, which do not compress: enough to fill a link of 64 kbit/s.
NOISE_BYTES = 120
#: A query that is issued a little later still sees everything.
RETAIN = "120s"
WAN = '\n[wan]\nlatency = "20ms"\njitter = "2ms"\nbandwidth = "2 Mbit/s"\n'
#: Beyond all tuples: it lets the ticks before it be sealed, since Spark's streams do not end.
LAST_MS = 3_600_000
_FEED_S = 0.2
_FILE_S_MAX = 5.0
LIVE_COLUMNS = "seq LONG, ts LONG, k LONG, pad STRING"


@dataclass(frozen=True)
class RetainedStream(Stream):
    """A recording that keeps its past for a while."""

    def config(self) -> list[str]:
        return [*super().config(), f'retain = "{RETAIN}"']


@dataclass(frozen=True)
class Query:
    """An equi-join on ``k`` of some of the streams, in this order, as text and as the oracle reads it."""

    streams: tuple[Stream, ...]

    @property
    def text(self) -> str:
        columns = ", ".join(f"s{at}.seq AS seq{at}, s{at}.pad AS pad{at}" for at in range(len(self.streams)))
        parts = [f"{each.name} {window_text(WINDOWS[each.name])} AS s{at}" for at, each in enumerate(self.streams)]
        joins = "".join(f" JOIN {part} ON s{at}.k = s{at + 1}.k" for at, part in enumerate(parts[1:]))
        return f"SELECT {columns} FROM {parts[0]}{joins}"

    def schema(self) -> pa.Schema:
        pairs = [(f"seq{at}", f"pad{at}") for at in range(len(self.streams))]
        return pa.schema([field for seq, pad in pairs for field in ((seq, pa.int64()), (pad, pa.string()))])

    def expected(self) -> pa.Table:
        """The oracle's rows."""
        sides = [
            OracleStream(f"s{at}", each.table, "ts", "ms", oracle_window(WINDOWS[each.name]))
            for at, each in enumerate(self.streams)
        ]
        edges = [((f"s{at}", "k"), (f"s{at + 1}", "k")) for at in range(len(sides) - 1)]
        outputs = [(f"{name}{at}", f"s{at}", name) for at in range(len(sides)) for name in ("seq", "pad")]
        if len(sides) == 2:
            return expected_pairs(sides[0], sides[1], edges, outputs)
        return expected(sides, edges, outputs)


@dataclass(frozen=True)
class Load:
    """Three streams of one rate: two recordings, and one that Spark reads from files as they come."""

    seconds: int
    per_s: int
    left: Stream
    right: Stream
    live: Stream

    @property
    def pair(self) -> Query:
        return Query((self.left, self.right))

    @property
    def pair_with_live(self) -> Query:
        return Query((self.left, self.live))

    @property
    def triple(self) -> Query:
        return Query((self.left, self.right, self.live))

    @property
    def tuples(self) -> int:
        return sum(each.table.num_rows for each in (self.left, self.right, self.live))


def load(seconds: int, per_s: int, seed: int = 1) -> Load:
    """So many seconds of so many tuples a second in each stream."""
    random = np.random.default_rng(seed)

    def table(name: str) -> pa.Table:
        rows = seconds * per_s
        ts = np.sort(random.integers(0, seconds * 1_000, rows))
        # A key is used around a time, not within a block: so windows reach over every boundary.
        block = (ts + random.integers(0, KEY_MS, rows)) // KEY_MS
        pad = [f"{name} {number:07d} {random.bytes(NOISE_BYTES).hex()}" for number in range(rows)]
        keys = KEYS_PER_TUPLE * per_s
        key = block * keys + random.integers(0, keys, rows)
        return pa.table({"seq": np.arange(rows), "ts": BASE_MS + ts, "k": key, "pad": pad})

    left = RetainedStream(LEFT, table(LEFT), "alpha")
    right = RetainedStream(RIGHT, table(RIGHT), "beta")
    return Load(seconds, per_s, left, right, Stream(LIVE, table(LIVE), "beta"))


def write_chaos_cluster(
    folder: Path, given: Load, *, live: bool, engine: str = "native", tau: str = "100ms", epoch_ticks: int | None = None
) -> Path:
    """Three sites behind proxies; with ``live``, Spark reads the third stream at beta from the folder ``in``, else it
    is a recording as the others are.
    """
    third = () if live else (RetainedStream(LIVE, given.live.table, given.live.site),)
    planner = {} if epoch_ticks is None else {"epoch": str(epoch_ticks)}
    config = write_cluster(folder, (given.left, given.right, *third), sites=SITES, tau=tau, planner=planner)
    text = config.read_text().replace('engine = "native"', f'engine = "{engine}"')
    if live:
        (folder / "in").mkdir()
        text += f"""
[site.beta.stream.{LIVE}]
spark = {{ format = "json", options = {{ path = "in", maxFilesPerTrigger = 1 }}, schema = "{LIVE_COLUMNS}" }}
ts = "ts"
trigger = "100ms"
retain = "{RETAIN}"
"""
    config.write_text(text + WAN)
    return config


class Feeder:
    """Puts the tuples of the live stream into files as they become due; while it is stalled, none.

    A file comes when the one before is read: Spark takes a second for a file on a busy machine, and a queue of files
    would be a delay that nobody is meant to look at. A daemon that was killed counts from 0 again: so one comes at
    least every few seconds.
    """

    def __init__(self, folder: Path, stream: Stream, read: Callable[[], int]) -> None:
        """``read``: how many of its tuples the daemon has read."""
        self._folder = folder
        self._read = read
        self.stream = stream
        self._lines = [json.dumps(row) + "\n" for row in stream.table.to_pylist()]
        self._ts = stream.table.column("ts").to_numpy()
        self._given = 0
        self._files = 0
        self._stalled = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._began_s = 0.0
        self._put_s = 0.0

    def first(self) -> None:
        """A second of tuples to plan by, before anything runs."""
        self._put(1_000)

    def begin(self) -> None:
        self._began_s = time.monotonic()
        self._thread.start()

    def stall(self) -> None:
        self._stalled.set()

    def go_on(self) -> None:
        self._stalled.clear()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def finish(self) -> None:
        """All that is left, and a tuple beyond that matches nothing."""
        self.stop()
        self._put(LAST_MS - 1)
        self._write([json.dumps({"seq": -1, "ts": BASE_MS + LAST_MS, "k": -1, "pad": ""}) + "\n"])

    def _feed(self) -> None:
        while not self._stopped.wait(_FEED_S):
            waited = time.monotonic() - self._put_s > _FILE_S_MAX
            if not self._stalled.is_set() and (waited or self._read() >= self._given):
                self._put(int((time.monotonic() - self._began_s) * 1_000))

    def _put(self, until_ms: int) -> None:
        due = int(np.searchsorted(self._ts, BASE_MS + until_ms))
        if due > self._given:
            self._write(self._lines[self._given : due])
            self._given = due
            self._put_s = time.monotonic()

    def _write(self, lines: Sequence[str]) -> None:
        """A file that appears at once; Spark reads files in order of their times, so those differ."""
        hidden = self._folder / f".{self._files}"
        hidden.write_text("".join(lines))
        os.utime(hidden, (1_700_000_000 + self._files,) * 2)
        hidden.rename(self._folder / f"{self._files}.json")
        self._files += 1
