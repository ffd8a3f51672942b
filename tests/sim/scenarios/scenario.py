"""A scenario is data: what the streams hold, how the query runs, what the network does. All from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa

from netsim.profiles import Wan
from node.core.limits import Limits
from tests.sim.crashes import PLAIN_KINDS, RARE_KINDS, CrashPoint
from tests.sim.scenarios.queries import ALGORITHMS, QuerySpec, Window, two_way_query

MS = 1_000  # microseconds
#: A daemon that stays down this long: longer than others wait for it to get ready.
LONG_US = 720_000 * MS

#: Rows of a stream in a two-way scenario.
SIZES = (0, 1, 5, 30, 30, 80, 80)
#: What logs may hold: more than any scenario has.
NO_QUOTA = Limits().log_bytes_max
_TYPES = {"int": pa.int64(), "narrow": pa.int32(), "string": pa.string()}


@dataclass(frozen=True)
class Extra:
    """A column beside those that every stream has."""

    name: str
    kind: str  # as the type of a key
    values: tuple[object, ...]


@dataclass(frozen=True)
class StreamData:
    """One stream: rows in order of arrival. ``n`` numbers them; ``text`` is theirs alone."""

    name: str
    site: str
    unit: Literal["ms", "us"]
    lateness_ms: int
    ts: tuple[int | None, ...]
    keys: tuple[object, ...]
    key_type: str  # "int", "narrow" or "string"
    extras: tuple[Extra, ...] = ()
    #: How much of its past is kept for queries that come later.
    retain_ms: int = 0
    #: All of its past is, for those that ask for it.
    keep_whole: bool = False

    @property
    def first_ts(self) -> int | None:
        """Event time of the first row that has one."""
        return next((ts for ts in self.ts if ts is not None), None)

    def table(self) -> pa.Table:
        columns = {
            "ts": pa.array(self.ts, pa.int64()),
            "key": pa.array(self.keys, _TYPES[self.key_type]),
            "n": pa.array(range(len(self.ts)), pa.int64()),
            "text": pa.array([f"{self.name}·{n}" for n in range(len(self.ts))], pa.string()),
        }
        return pa.table(columns | {extra.name: pa.array(extra.values, _TYPES[extra.kind]) for extra in self.extras})

    def without(self, start: int, end: int) -> StreamData:
        """The stream without its rows from ``start`` to before ``end``."""

        def cut(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return values[:start] + values[end:]

        extras = tuple(replace(extra, values=cut(extra.values)) for extra in self.extras)
        return replace(self, ts=cut(self.ts), keys=cut(self.keys), extras=extras)


@dataclass(frozen=True)
class Fault:
    """From ``at_us`` on, for ``length_us``: the link is cut, or it swallows what is sent without a word."""

    at_us: int
    length_us: int
    pair: tuple[str, str]
    silent: bool


@dataclass(frozen=True)
class Restart:
    """At ``at_us`` the daemon of a site is killed, and after ``down_us`` started again with what its disk has.

    ``fresh``: with an empty disk.
    """

    at_us: int
    site: str
    down_us: int = 0
    fresh: bool = False


@dataclass(frozen=True)
class Scenario:
    """Everything a run depends on."""

    seed: int
    sites: tuple[str, ...]
    streams: tuple[StreamData, ...]
    queries: tuple[QuerySpec, ...]
    tau_ms: int
    chunk_rows_max: int
    delay_us_max: int
    paced: bool
    reference_engine: bool
    faults: tuple[Fault, ...] = ()
    restarts: tuple[Restart, ...] = ()
    crashes: tuple[CrashPoint, ...] = ()
    #: What a disk takes to make something durable, besides a delay.
    sync_us: int = 0
    #: How many of a thousand frames arrive with a flipped bit.
    damaged_per_mille: int = 0
    limits: Limits = field(default_factory=Limits)
    #: Event time runs with the virtual clock: a tuple is there when its time has come, not before.
    live: bool = False
    #: What links are like instead of delays up to ``delay_us_max``.
    wan: Wan | None = None

    @property
    def disk(self) -> bool:
        """Whether streams are logged on a simulated disk; else in memory, as ``narrows run`` does."""
        return self.seed % 2 == 0 or self.has_quota or self._is_killed

    @property
    def has_quota(self) -> bool:
        """Whether the logs of a site may be full."""
        return self.limits.log_bytes_max < NO_QUOTA

    @property
    def _is_killed(self) -> bool:
        return bool(self.crashes) or any(not restart.fresh for restart in self.restarts)

    def data(self, stream: str) -> StreamData:
        """The stream of that name."""
        return next(data for data in self.streams if data.name == stream)


def two_way(
    *,
    seed: int,
    sites: tuple[str, ...],
    streams: tuple[StreamData, StreamData],
    sink: str,
    algorithms: tuple[str, str],
    tau_ms: int,
    windows: tuple[Window, Window],
    chunk_rows_max: int,
    delay_us_max: int,
    paced: bool,
    reference_engine: bool,
    policy: str = "frontier",
    faults: tuple[Fault, ...] = (),
    limits: Limits | None = None,
    live: bool = False,
) -> Scenario:
    """One query over two streams."""
    names = (streams[0].name, streams[1].name)
    return Scenario(
        seed=seed,
        sites=sites,
        streams=streams,
        queries=(two_way_query(names, windows, sink, algorithms, policy),),
        tau_ms=tau_ms,
        chunk_rows_max=chunk_rows_max,
        delay_us_max=delay_us_max,
        paced=paced,
        reference_engine=reference_engine,
        faults=faults,
        limits=limits or Limits(),
        live=live,
    )


def two_way_of(seed: int) -> Scenario:
    """A scenario with one query over two streams, always the same for a seed."""
    rng = random.Random(seed)
    sites = ("ash", "bow", "cam")[: rng.choice([1, 2, 2, 3, 3])]
    tau_ms = rng.choice([1, 7, 100, 1000])
    key_type = rng.choice(["int", "int", "string"])
    origin = rng.choice([0, -5_000, 1_700_000_000_000, 2**50, -(2**50), 2**61, -(2**61)])
    step = rng.choice([0, 1, tau_ms // 2, tau_ms, 5 * tau_ms])
    streams = tuple(
        random_stream(rng, name, rng.choice(sites), tau_ms, step, key_type, origin, SIZES, (1, 3, 10))
        for name in ("left", "right")
    )
    lengths = [0, 1, tau_ms // 3, tau_ms, 3 * tau_ms + 1, 10 * step, 40 * tau_ms, 10_000 * tau_ms]
    windows = [random_window(rng, lengths) for _ in range(2)]
    delay_us_max = rng.choice([0, 100, 50 * MS, 2_000 * MS])
    scenario = two_way(
        seed=seed,
        sites=sites,
        streams=(streams[0], streams[1]),
        sink=rng.choice(sites),
        algorithms=(rng.choice(ALGORITHMS), rng.choice(ALGORITHMS)),
        tau_ms=tau_ms,
        windows=(windows[0], windows[1]),
        chunk_rows_max=rng.choice([1, 3, 10, 100]),
        delay_us_max=delay_us_max,
        paced=rng.random() < 0.2,
        reference_engine=rng.random() < 0.3,
        limits=random_limits(rng, delay_us_max),
    )
    damaged = rng.choice([0, 0, 0, 5])
    restarts = random_restarts(rng, sites)
    return replace(scenario, faults=random_faults(rng, sites), restarts=restarts, damaged_per_mille=damaged)


def random_stream(
    rng: random.Random,
    name: str,
    site: str,
    tau_ms: int,
    step: int,
    key_type: str,
    origin: int,
    sizes: Sequence[int],
    distinct_keys: Sequence[int],
) -> StreamData:
    """A stream of one of the sizes: ties and gaps, disorder within and beyond its lateness, nulls here and there."""
    rows = rng.choice(sizes)
    # Times that would not fit in microseconds are only possible where nobody counts in them.
    unit: Literal["ms", "us"] = "us" if rng.random() < 0.3 and abs(origin) <= 2**50 else "ms"
    scale = 1000 if unit == "us" else 1
    lateness_ms = rng.choice([0, 0, tau_ms, 3 * tau_ms])
    jitter = rng.choice([0, 0, 1, lateness_ms])
    ts: list[int | None] = []
    now = origin * scale
    for _ in range(rows):
        now += rng.randint(0, max(1, 2 * step) * scale)
        if rng.random() < 0.01:
            now += rng.randint(0, 200 * tau_ms) * scale
        ts.append(None if rng.random() < 0.01 else now - rng.randint(0, jitter * scale))
    distinct = rng.choice(distinct_keys)
    # Keys that drift come, go, and some come back: entries of copies die and are reborn.
    drift = rng.choice([0, 0, 1, 3])
    numbers = [(rng.randrange(distinct) + row * drift // 4) % 13 for row in range(rows)]
    keys = [None if rng.random() < 0.05 else key_value(number, key_type) for number in numbers]
    own_type = "narrow" if key_type == "int" and rng.random() < 0.3 else key_type
    return StreamData(name, site, unit, lateness_ms, tuple(ts), tuple(keys), own_type)


def random_window(rng: random.Random, lengths: list[int]) -> Window:
    if rng.random() < 0.3:
        return "rows", rng.choice([1, 2, 5, 30, 1000])
    return "range", rng.choice(lengths)


def key_value(number: int, key_type: str) -> object:
    return number - 1 if key_type == "int" else ["", "a", "ключ", "a" * 40][number % 4] + str(number // 4)


def random_limits(rng: random.Random, delay_us_max: int) -> Limits:
    # A long link with little in flight is only slow, and says nothing that a short one does not.
    part = rng.choice([7, 64, 1024, 1 << 20] if delay_us_max <= 50 * MS else [1024, 1 << 20])
    inflight = part * rng.choice([2, 5, 100])
    return Limits(
        ahead_bytes_max=rng.choice([1, 500, 1 << 26]),
        ahead_batches_max=rng.choice([1, 2, 256]),
        part_bytes_max=part,
        inflight_bytes_max=inflight,
        ack_bytes=rng.choice([1, inflight - 1]),
        book_questions_max=rng.choice([1, 3, 100]),
        book_keys_max=rng.choice([1, 4, 2**16]),
        news_held_max=rng.choice([1, 8]),
        news_us=rng.choice([0, 30 * MS, 1000 * MS]),
        # Rows are few: snapshots in many pieces.
        piece_bytes_min=100,
        piece_bytes_unknown=100,
    )


def random_restarts(rng: random.Random, sites: tuple[str, ...]) -> tuple[Restart, ...]:
    """Daemons die: none, one, or several, also one after the other or together."""
    count = rng.choice([0, 0, 0, 1, 1, 2, 4])
    at_us = rng.randrange(3_000 * MS)
    restarts = []
    for _ in range(count):
        down_us = rng.choice([0, 10 * MS, 1_000 * MS, 8_000 * MS])
        restarts.append(Restart(at_us, rng.choice(sites), down_us, rng.random() < 0.07))
        at_us += rng.choice([0, 1 * MS, 50 * MS, 300 * MS, 3_000 * MS])
    return tuple(restarts)


def random_faults(rng: random.Random, sites: tuple[str, ...]) -> tuple[Fault, ...]:
    pairs = [(a, b) for a in sites for b in sites if a < b]
    if not pairs:
        return ()
    count = rng.choice([0, 0, 1, 3, 8])
    return tuple(
        Fault(rng.randrange(3_000 * MS), rng.choice([1, 500 * MS, 5_000 * MS]), rng.choice(pairs), rng.random() < 0.3)
        for _ in range(count)
    )


def with_crashes(scenario: Scenario) -> Scenario:
    """Daemons die at steps that the seed decides: alone, together, again while they recover. Some disks are slow."""
    rng = random.Random(f"crashes {scenario.seed}")
    points = []
    if rng.random() < 0.7:
        points += [CrashPoint("", (kind,)) for kind in rng.sample(RARE_KINDS, 6)]
    for _ in range(rng.choice([0, 0, 1, 2, 3])):
        also = tuple(rng.sample(scenario.sites, rng.randint(0, len(scenario.sites)))) if rng.random() < 0.2 else ()
        down_us = rng.choice([0, 10 * MS, 1_000 * MS, 8_000 * MS, LONG_US])
        occurrence = rng.choice([1, 1, 1, 2, 3, 5, 10])
        kinds = tuple(sorted(rng.sample(PLAIN_KINDS, 3)))
        points.append(CrashPoint(rng.choice(("", *scenario.sites)), kinds, occurrence, down_us, also))
    return replace(
        scenario,
        crashes=tuple(points),
        sync_us=rng.choice([0, 0, 0, 0, 20 * MS, 1_000 * MS]),
        limits=replace(scenario.limits, ended_queries_max=rng.choice([1, 1, 10])),
        queries=tuple(_given_up(rng, scenario, query) for query in scenario.queries),
    )


def _given_up(rng: random.Random, scenario: Scenario, query: QuerySpec) -> QuerySpec:
    """Now and then a site that is not its home cannot go on with a query."""
    sites = sorted({scenario.data(ref.stream).site for ref in query.refs} - {query.sink})
    if query.given_up is not None or not sites or rng.random() > 0.07:
        return query
    return replace(query, given_up=(rng.choice(sites), round(10 ** rng.uniform(1, 6.5))))
