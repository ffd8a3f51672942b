"""Scenarios with up to a dozen queries at once over the same few streams, coming and going all the time.

Any two of them differ in some of this: filter (stronger, weaker, unrelated, none), select list, aliases, windows, sink,
plan. So each finds copies and tables of others, some of which serve it and some of which do not. Some queries are
dropped at awkward moments: while they are prepared, or before what they opened has been heard of.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.sim.scenarios.predicates import Both, Col, Compare, In, IsNull, Lit, Not, Predicate
from tests.sim.scenarios.queries import ALGORITHMS, QuerySpec, Ref, Way, Window
from tests.sim.scenarios.scenario import (
    MS,
    Extra,
    Scenario,
    StreamData,
    random_faults,
    random_limits,
    random_restarts,
    random_stream,
)

SITES = ("ash", "bow", "cam")
QUERIES_MAX = 12


def crowd_of(seed: int) -> Scenario:
    """The scenario of a seed, always the same."""
    rng = random.Random(f"crowd {seed}")
    tau_ms = rng.choice([7, 100])
    count = rng.choice([3, 4, 5, 6, 8, QUERIES_MAX])
    # The oracle looks at all pairs, for each query.
    rows = 48 if count <= 5 else 30
    names = (("west", "ash"), ("east", "bow"), *((("third", rng.choice(SITES)),) if rng.random() < 0.3 else ()))
    streams = tuple(_stream(rng, name, site, tau_ms, rows) for name, site in names)
    chunk_rows_max = rng.choice([1, 2, 4])
    reads = 3 * rows * len(streams) // (1 + chunk_rows_max)
    delay_us_max = rng.choice([0, 100, 50 * MS, 500 * MS])
    favourite = rng.choice(("SP-S", "SM-S1", "SM-S2", "SM-D1", *ALGORITHMS))
    return Scenario(
        seed=seed,
        sites=SITES,
        streams=streams,
        queries=with_fates(
            seed, tuple(_query(rng, streams, favourite, number, reads, tau_ms, delay_us_max) for number in range(count))
        ),
        tau_ms=tau_ms,
        chunk_rows_max=chunk_rows_max,
        delay_us_max=delay_us_max,
        paced=rng.random() < 0.2,
        reference_engine=rng.random() < 0.3,
        limits=random_limits(rng, delay_us_max),
        faults=random_faults(rng, SITES) if rng.random() < 0.4 else (),
        restarts=random_restarts(rng, SITES),
    )


def with_fates(seed: int, queries: tuple[QuerySpec, ...]) -> tuple[QuerySpec, ...]:
    """Some of the queries are given up by one of their sites: while they are prepared, soon after, or much later."""
    rng = random.Random(f"fates {seed}")
    return tuple(
        replace(query, given_up=(rng.choice(SITES), round(10 ** rng.uniform(1, 6.5)))) if rng.random() < 0.15 else query
        for query in queries
    )


def _stream(rng: random.Random, name: str, site: str, tau_ms: int, rows: int) -> StreamData:
    data = random_stream(rng, name, site, tau_ms, tau_ms // 2, "int", 0, (rows,), (2, 3, 6))
    extras = (
        Extra("j", "int", tuple(rng.randrange(3) for _ in data.ts)),
        Extra("v", "int", tuple(rng.choice([None, 0, 1, 2, 3, 7]) for _ in data.ts)),
    )
    return replace(data, extras=extras, retain_ms=rng.choice([*[0] * 6, 5 * tau_ms, 1_000 * tau_ms]))


def _query(
    rng: random.Random,
    streams: tuple[StreamData, ...],
    favourite: str,
    number: int,
    reads: int,
    tau_ms: int,
    delay_us_max: int,
) -> QuerySpec:
    # The position of a stream in the query decides ties; a stream may be there twice.
    chosen = rng.sample(streams, 2) if rng.random() < 0.95 else [rng.choice(streams)] * 2
    aliases = rng.choice([("a", "b"), ("b", "a"), ("x", "y"), ("east", "west")])
    refs = tuple(
        Ref(alias, data.name, _window(rng, tau_ms), _filter(rng, alias))
        for alias, data in zip(aliases, chosen, strict=True)
    )
    edges = tuple(
        ((aliases[0], column), (aliases[1], column)) for column in rng.choice([("key",)] * 8 + [("j", "key")])
    )
    columns = [(alias, column) for alias in aliases for column in ("n", "text", "v", "key", "ts")]
    outputs = [(aliases[0], "n"), (aliases[1], "n"), *rng.sample(columns, rng.choice([0, 0, 1, 3]))]
    algorithms = [favourite if rng.random() < 0.85 else rng.choice(ALGORITHMS) for _ in aliases]
    sink = rng.choice(SITES)
    places = sorted({sink, *(data.site for data in chosen)})
    starts = [rng.choice(places) if rng.random() < 0.12 else None for _ in aliases]
    ways = (
        Way(aliases[0], ((aliases[1], algorithms[0]),), starts[0]),
        Way(aliases[1], ((aliases[0], algorithms[1]),), starts[1]),
    )
    spec = QuerySpec(
        refs=refs,
        edges=edges,
        outputs=tuple((f"{alias}_{column}", Col(alias, column)) for alias, column in dict.fromkeys(outputs)),
        sink=sink,
        ways=ways,
        after_reads=0 if number == 0 else rng.randint(0, reads // rng.choice([2, 4, 8])),
    )
    match rng.choice(["stays"] * 6 + ["dropped"] * 3 + ["awkward"] * 2):
        case "dropped":
            return replace(spec, drop_after_reads=spec.after_reads + rng.randint(0, reads // 2))
        case "awkward":
            # Prepare, Prepared, Start and OpenCopy each take up to a delay.
            return replace(spec, drop_after_us=rng.randint(0, 4 * delay_us_max))
    return spec


def _window(rng: random.Random, tau_ms: int) -> Window:
    windows: list[Window] = [
        ("range", 0),
        ("range", tau_ms),
        ("range", 3 * tau_ms + 1),
        ("range", 8 * tau_ms),
        ("rows", 6),
    ]
    return rng.choice(windows)


def _filter(rng: random.Random, alias: str) -> Predicate | None:
    """Of a small family, so that one often implies another."""
    number, value, key = Col(alias, "n"), Col(alias, "v"), Col(alias, "key")
    late, later = Compare(">", number, Lit(4)), Compare(">", number, Lit(12))
    valued, keyed = IsNull(value, True), In(key, (0, 1, 2))
    filters: list[Predicate | None] = [
        *[None] * 10,
        late,
        later,
        Both(later, valued),
        Both(late, valued),
        valued,
        keyed,
        Both(keyed, late),
        Not(keyed),
        Compare("<>", number, Lit(rng.randint(0, 9))),
    ]
    return rng.choice(filters)
