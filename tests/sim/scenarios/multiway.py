"""Scenarios with queries of two to six streams, several at once, by plans that nobody would choose. All from a seed.

Streams are small and the number of combinations is bounded, because the oracle looks at all of them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from tests.sim.scenarios.predicates import Col, Columns, Term, random_filter, random_output, random_residual
from tests.sim.scenarios.queries import ALGORITHMS, Edge, QuerySpec, Ref, Way
from tests.sim.scenarios.scenario import (
    MS,
    Extra,
    Scenario,
    StreamData,
    random_faults,
    random_limits,
    random_restarts,
    random_stream,
    random_window,
)

SITES = ("ash", "bow", "cam", "dew")
#: Rows of a stream, by the number of streams in the largest query.
ROWS_MAX = {2: 40, 3: 30, 4: 22, 5: 16, 6: 12}
#: Combinations with equal keys, windows aside, that a query may have.
COMBINATIONS_MAX = 2_000
PRODUCTS = ("SP-S", "SP-D")


def multiway_of(seed: int) -> Scenario:
    """The scenario of a seed, always the same."""
    return random_scenario(random.Random(f"multiway {seed}"), seed)


def random_scenario(rng: random.Random, seed: int) -> Scenario:
    """A scenario in which every choice is the generator's."""
    sites = SITES[: rng.choice([1, 2, 3, 3, 4, 4])]
    sizes = [rng.choice([2, 3, 3, 3, 4, 4, 5, 6]) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))]
    tau_ms = rng.choice([1, 7, 100, 1000])
    step = rng.choice([0, 1, tau_ms // 2, tau_ms, 5 * tau_ms])
    key_type = rng.choice(["int", "int", "string"])
    origin = rng.choice([0, -5_000, 1_700_000_000_000, 2**50, -(2**50), 2**61])
    rows_max = ROWS_MAX[max(sizes)]
    streams = tuple(
        _stream(rng, f"s{number}", rng.choice(sites), tau_ms, step, key_type, origin, rows_max)
        for number in range(rng.randint(min(2, max(sizes)), min(5, max(sizes))))
    )
    lengths = [0, 1, tau_ms, 3 * tau_ms + 1, 10 * step, 20 * step, 40 * tau_ms, *[10_000 * tau_ms] * 5]
    chunk_rows_max = rng.choice([1, 3, 10] if len(sizes) == 1 else [1, 1, 2, 4])
    delay_us_max = rng.choice([0, 100, 50 * MS, 2_000 * MS])
    reads = sum(len(data.ts) for data in streams) * 2 // (1 + chunk_rows_max) + len(streams)
    queries: list[QuerySpec] = []
    for number, size in enumerate(sizes):
        # Queries that have views in common may share copies of them.
        if queries and rng.random() < 0.65:
            queries.append(_sibling(rng, rng.choice(queries), streams, sites, lengths, reads))
        else:
            queries.append(_query(rng, size, streams, sites, lengths, reads, number))
    return Scenario(
        seed=seed,
        sites=sites,
        streams=_affordable(streams, queries),
        queries=tuple(queries),
        tau_ms=tau_ms,
        chunk_rows_max=chunk_rows_max,
        delay_us_max=delay_us_max,
        paced=rng.random() < 0.2,
        reference_engine=rng.random() < 0.3,
        limits=random_limits(rng, delay_us_max),
        faults=random_faults(rng, sites),
        restarts=random_restarts(rng, sites),
        damaged_per_mille=rng.choice([0, 0, 0, 5]),
    )


# -- streams ----------------------------------------------------------------------------------


def _stream(
    rng: random.Random, name: str, site: str, tau_ms: int, step: int, key_type: str, origin: int, rows_max: int
) -> StreamData:
    """A stream with three more columns: two to join by, with few values, and one with many nulls."""
    # One that is empty or nearly so leaves little to join: there are few of them.
    sizes = (0, 1, 5, *[rows_max] * 60)
    data = random_stream(rng, name, site, tau_ms, step, key_type, origin, sizes, (1, 2, 4))
    few, some = rng.choice([1, 2, 3]), rng.choice([2, 5])
    extras = (
        Extra("j", rng.choice(["int", "narrow"]), tuple(_maybe(rng, rng.randrange(few)) for _ in data.ts)),
        Extra("s", "string", tuple(_maybe(rng, "abcde"[rng.randrange(some)]) for _ in data.ts)),
        Extra("v", "int", tuple(rng.choice([None, 0, 1, 2, 3, 7, -4]) for _ in data.ts)),
    )
    return replace(data, extras=extras, retain_ms=rng.choice([0, 0, 0, 3 * tau_ms, 10_000 * tau_ms]))


def _maybe(rng: random.Random, value: object) -> object:
    return None if rng.random() < 0.03 else value


def _affordable(streams: tuple[StreamData, ...], queries: Sequence[QuerySpec]) -> tuple[StreamData, ...]:
    """The streams, with the longest cut in half as long as a query has too many combinations."""
    for query in queries:
        names = [ref.stream for ref in query.refs]
        while combinations(streams, query) > COMBINATIONS_MAX:
            longest = max((data for data in streams if data.name in names), key=lambda data: len(data.ts))
            cut = longest.without(len(longest.ts) // 2, len(longest.ts))
            streams = tuple(cut if data is longest else data for data in streams)
    return streams


def combinations(streams: Sequence[StreamData], query: QuerySpec) -> int:
    """How many combinations have equal keys at the worst point on the way, in the order of the query or backwards."""
    return max(max(_sizes(streams, query, order)) for order in (query.refs, query.refs[::-1]))


def _sizes(streams: Sequence[StreamData], query: QuerySpec, order: Sequence[Ref]) -> Iterator[int]:
    #: Combinations so far, as the number of the row of each stream.
    found: list[tuple[int, ...]] = [()]
    places = {ref.alias: place for place, ref in enumerate(order)}
    columns = {ref.alias: _columns(next(data for data in streams if data.name == ref.stream)) for ref in order}
    for place, ref in enumerate(order):
        edges = [edge if edge[0][0] == ref.alias else edge[::-1] for edge in query.edges if ref.alias in _ends(edge)]
        edges = [(own, other) for own, other in edges if places[other[0]] < place]
        rows: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for row in range(len(columns[ref.alias]["n"])):
            rows[tuple(columns[ref.alias][own[1]][row] for own, _ in edges)].append(row)
        wanted = [(places[other[0]], columns[other[0]][other[1]]) for _, other in edges]
        more = []
        for one in found:
            key = tuple(values[one[at]] for at, values in wanted)
            more += [(*one, row) for row in rows.get(key, ())] if None not in key else []
        found = more
        yield len(found)
        if len(found) > COMBINATIONS_MAX:
            return


def _ends(edge: Edge) -> tuple[str, str]:
    return edge[0][0], edge[1][0]


@lru_cache(maxsize=64)
def _columns(data: StreamData) -> dict[str, list[object]]:
    return data.table().to_pydict()  # type: ignore[no-any-return]


# -- queries ----------------------------------------------------------------------------------


def _query(
    rng: random.Random,
    size: int,
    streams: Sequence[StreamData],
    sites: Sequence[str],
    lengths: list[int],
    reads: int,
    number: int,
) -> QuerySpec:
    # Names whose order is not that of the query.
    aliases = tuple(rng.sample("abcdef", size))
    if size <= len(streams) and rng.random() < 0.8:
        chosen = rng.sample(list(streams), size)
    else:
        chosen = [rng.choice(list(streams)) for _ in aliases]
    by_alias = dict(zip(aliases, chosen, strict=True))
    columns = Columns(
        {alias: _numbers(data) for alias, data in by_alias.items()},
        dict.fromkeys(aliases, ("s", "text")),
    )
    refs = tuple(
        Ref(
            alias,
            data.name,
            random_window(rng, lengths),
            random_filter(rng, columns, alias) if rng.random() < 0.18 else None,
        )
        for alias, data in by_alias.items()
    )
    edges = _edges(rng, by_alias)
    spec = QuerySpec(
        refs=refs,
        edges=edges,
        outputs=_outputs(rng, aliases, columns),
        sink="",
        ways=(),
        residuals=tuple(random_residual(rng, columns, aliases) for _ in range(rng.choice([0, 0, 0, 1, 1, 2]))),
        commas=rng.random() < 0.3 and _connected(aliases, edges),
    )
    spec = _timed(rng, spec, reads, number)
    return _planned(rng, spec, rng.choice(list(sites)), streams)


def _sibling(
    rng: random.Random,
    query: QuerySpec,
    streams: Sequence[StreamData],
    sites: Sequence[str],
    lengths: list[int],
    reads: int,
) -> QuerySpec:
    """A query that has most in common with another, perhaps all, and comes at another time."""
    spec = query
    if rng.random() < 0.2:
        spec = replace(spec, refs=tuple(replace(ref, window=random_window(rng, lengths)) for ref in spec.refs))
    if rng.random() < 0.2:
        spec = replace(spec, residuals=())
    spec = _timed(rng, spec, reads, 1)
    if rng.random() < 0.5:
        return spec
    return _planned(rng, spec, spec.sink if rng.random() < 0.5 else rng.choice(list(sites)), streams)


def _timed(rng: random.Random, spec: QuerySpec, reads: int, number: int) -> QuerySpec:
    """The first comes at once, others while it runs; some are dropped."""
    return replace(
        spec,
        after_reads=0 if number == 0 else rng.randint(0, reads // 2),
        drop_after_reads=rng.randint(0, reads) if rng.random() < (0.25 if number else 0.1) else None,
    )


def _planned(rng: random.Random, spec: QuerySpec, sink: str, streams: Sequence[StreamData]) -> QuerySpec:
    spec = replace(spec, sink=sink)
    sites = {data.name: data.site for data in streams}
    places = sorted({sink, *(sites[ref.stream] for ref in spec.refs)})
    if rng.random() < 0.1:
        return replace(spec, ways=tuple(shipped_way(spec, head) for head in spec.aliases))
    return replace(spec, ways=tuple(random_way(rng, spec, head, places) for head in spec.aliases))


def _numbers(data: StreamData) -> tuple[str, ...]:
    return ("n", "j", "v", *(() if data.key_type == "string" else ("key",)))


def _outputs(rng: random.Random, aliases: Sequence[str], columns: Columns) -> tuple[tuple[str, Term], ...]:
    """Mostly what tells tuples apart; sometimes not, or something computed."""
    found: list[tuple[str, Term]] = []
    for alias in aliases:
        if rng.random() < 0.9:
            found.append((f"{alias}_n", Col(alias, "n")))
        if rng.random() < 0.3:
            column = rng.choice(["key", "j", "s", "v", "text", "ts"])
            found.append((f"{alias}_{column}", Col(alias, column)))
    if rng.random() < 0.3:
        found.append(("computed", random_output(rng, columns, aliases)))
    return tuple(found) or (("n", Col(aliases[0], "n")),)


def _edges(rng: random.Random, streams: dict[str, StreamData]) -> tuple[Edge, ...]:
    pairs = _pairs(rng, len(streams))
    nodes = rng.sample(list(streams), len(streams))
    one_key = rng.random() < 0.35
    found: list[Edge] = []
    for one, other in pairs:
        left, right = nodes[one], nodes[other]
        for _ in range(1 if one_key or rng.random() < 0.8 else 2):
            own, theirs = ("key", "key") if one_key else _attributes(rng, streams[left], streams[right])
            if ((left, own), (right, theirs)) not in found:
                found.append(((left, own), (right, theirs)))
    return tuple(found)


def _pairs(rng: random.Random, size: int) -> list[tuple[int, int]]:
    """Which streams are linked; rarely not all of them are, and the query is a product."""
    match rng.choice(["chain", "star", "cycle", "clique", "tree"]):
        case "chain":
            pairs = [(node, node + 1) for node in range(size - 1)]
        case "star":
            pairs = [(0, node) for node in range(1, size)]
        case "cycle":
            pairs = [(node, (node + 1) % size) for node in range(size if size > 2 else 1)]
        case "clique":
            pairs = [(one, other) for one in range(size) for other in range(one + 1, size)]
        case _:
            pairs = [(rng.randrange(node), node) for node in range(1, size)]
    if size <= 3 and rng.random() < 0.08:
        pairs.pop(rng.randrange(len(pairs)))
    return pairs


def _connected(aliases: Sequence[str], edges: Sequence[Edge]) -> bool:
    """Whether equalities link all streams: a product must be asked for by name."""
    reached = {aliases[0]}
    for _ in aliases:
        for (left, _), (right, _) in edges:
            if left in reached or right in reached:
                reached |= {left, right}
    return len(reached) == len(aliases)


def _attributes(rng: random.Random, left: StreamData, right: StreamData) -> tuple[str, str]:
    choices = [("key", "key"), ("key", "key"), ("j", "j"), ("s", "s")]
    if left.key_type != "string":
        choices.append(("key", "j"))
    if right.key_type != "string":
        choices.append(("j", "key"))
    return rng.choice(choices)


# -- plans ------------------------------------------------------------------------------------


def random_way(rng: random.Random, spec: QuerySpec, head: str, places: list[str]) -> Way:
    """Any order; what no equality links can only be shipped, and is mostly left for later."""
    rest = [alias for alias in spec.aliases if alias != head]
    joined: tuple[str, ...] = (head,)
    steps: list[tuple[str, str]] = []
    while rest:
        linked = [alias for alias in rest if spec.linked(alias, joined)]
        alias = rng.choice(rest if not linked or rng.random() < 0.05 else linked)
        steps.append((alias, rng.choice(ALGORITHMS if alias in linked else PRODUCTS)))
        joined = (*joined, alias)
        rest.remove(alias)
    return Way(head, tuple(steps), rng.choice(places) if rng.random() < 0.3 else None)


def shipped_way(spec: QuerySpec, head: str) -> Way:
    """Everything to the sink, and all joins there."""
    return Way(head, tuple((alias, "SP-S") for alias in spec.aliases if alias != head), spec.sink)
