"""Scenarios in which queries share copies: the same streams and conditions, other beginnings, ends and sinks.

Windows are short beside the streams, so that a copy forgets while it is shared, and the query whose copy it was is
often gone before the others.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.sim.scenarios.crowd import with_fates
from tests.sim.scenarios.predicates import Col, Compare, Lit
from tests.sim.scenarios.queries import ALGORITHMS, QuerySpec, Ref, Way, Window
from tests.sim.scenarios.scenario import (
    MS,
    Scenario,
    random_faults,
    random_limits,
    random_restarts,
    random_stream,
)

SITES = ("ash", "bow", "cam")
#: SP-S, SM-S2 and SM-D1 have copies that can be shared.
SHAREABLE = ("SP-S", "SM-S2", "SM-D1", "SP-S", "SM-S2", "SM-D1", *ALGORITHMS)


def shared_of(seed: int) -> Scenario:
    """The scenario of a seed, always the same."""
    rng = random.Random(f"shared {seed}")
    tau_ms = rng.choice([7, 100])
    streams = tuple(
        replace(
            random_stream(rng, name, site, tau_ms, tau_ms // 2, "int", 0, (40, 60), (1, 3, 6)),
            retain_ms=rng.choice([0, 0, 0, 5 * tau_ms]),
        )
        for name, site in (("left", "ash"), ("right", "bow"))
    )
    base = _query(rng, tau_ms)
    chunk_rows_max = rng.choice([1, 2, 4])
    reads = 200 // (1 + chunk_rows_max)
    delay_us_max = rng.choice([0, 100, 50 * MS, 500 * MS])
    return Scenario(
        seed=seed,
        sites=SITES,
        streams=streams,
        queries=with_fates(
            seed, tuple(_copy(rng, base, number, reads, tau_ms) for number in range(rng.choice([2, 3, 3])))
        ),
        tau_ms=tau_ms,
        chunk_rows_max=chunk_rows_max,
        delay_us_max=delay_us_max,
        paced=rng.random() < 0.2,
        reference_engine=rng.random() < 0.4,
        limits=random_limits(rng, delay_us_max),
        faults=random_faults(rng, SITES) if rng.random() < 0.5 else (),
        restarts=random_restarts(rng, SITES),
    )


def _query(rng: random.Random, tau_ms: int) -> QuerySpec:
    where = Compare("<>", Col("b", "n"), Lit(3)) if rng.random() < 0.3 else None
    return QuerySpec(
        refs=(Ref("a", "left", _window(rng, tau_ms)), Ref("b", "right", _window(rng, tau_ms), where)),
        edges=((("a", "key"), ("b", "key")),),
        outputs=(("an", Col("a", "n")), ("bn", Col("b", "n")), ("bt", Col("b", "text"))),
        sink=rng.choice(SITES),
        ways=(Way("a", (("b", rng.choice(SHAREABLE)),)), Way("b", (("a", rng.choice(SHAREABLE)),))),
    )


def _window(rng: random.Random, tau_ms: int) -> Window:
    windows: list[Window] = [
        ("range", tau_ms),
        ("range", 3 * tau_ms + 1),
        ("range", 8 * tau_ms),
        ("rows", 2),
        ("rows", 6),
    ]
    return rng.choice(windows)


def _copy(rng: random.Random, base: QuerySpec, number: int, reads: int, tau_ms: int) -> QuerySpec:
    """The query at another time and place; sometimes what keeps it from sharing differs."""
    spec = replace(
        base,
        sink=rng.choice(SITES),
        after_reads=0 if number == 0 else rng.randint(0, reads // 2),
        drop_after_reads=rng.randint(0, reads) if rng.random() < (0.6 if number == 0 else 0.2) else None,
    )
    left, right = spec.refs
    match rng.choice(["same"] * 6 + ["window", "filter", "filter", "columns"]):
        case "window":
            return replace(spec, refs=(left, replace(right, window=_window(rng, tau_ms))))
        case "filter":
            return replace(spec, refs=(left, replace(right, where=Compare(">", Col("b", "n"), Lit(rng.randint(0, 9))))))
        case "columns":
            return replace(spec, outputs=spec.outputs[:2])
    return spec
