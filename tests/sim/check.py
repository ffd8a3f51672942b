"""Judge a seed: run it, ask the oracle, and if they differ find a shorter story that still differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from node.core.effects import QueryState
from planner.model.beginning import DEFAULT_BEGINNING
from tests.oracle.compare import row_codes, same_rows
from tests.sim.judges.expectation import expected_rows, kept
from tests.sim.scenarios.beginnings import with_beginnings, with_look_backs
from tests.sim.scenarios.crowd import crowd_of
from tests.sim.scenarios.multiway import multiway_of
from tests.sim.scenarios.queries import QuerySpec
from tests.sim.scenarios.quotas import with_quota
from tests.sim.scenarios.scenario import LONG_US, NO_QUOTA, Scenario, StreamData, two_way_of, with_crashes
from tests.sim.scenarios.shared import shared_of
from tests.sim.scenarios.switches import with_switches
from tests.sim.scenarios.tree_switches import with_tree_switches
from tests.sim.scenarios.trees import with_trees
from tests.sim.world import GIVEN_UP, Delivered, Outcome, World

SHORTEN_TRIES_MAX = 300


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed, always the same."""
    return with_tree_switches(with_look_backs(with_trees(with_switches(with_crashes(with_beginnings(_of_kind(seed)))))))


def _of_kind(seed: int) -> Scenario:
    """Of twelve, four have one query over two long streams, one a few queries that are nearly the same, one a crowd of
    queries that share what they can, six have anything.
    """
    return with_quota(_without_quota(seed))


def _without_quota(seed: int) -> Scenario:
    if seed % 3 == 0:
        return two_way_of(seed)
    if seed % 6 != 1:
        return multiway_of(seed)
    return crowd_of(seed) if seed % 12 == 1 else shared_of(seed)


def check_seed(seed: int) -> Outcome:
    """Run a seed; AssertionError with the shortest story found if a promise is broken."""
    scenario = scenario_of(seed)
    try:
        return check(scenario)
    except Exception as error:
        raise AssertionError(_report(seed, *_shorten(scenario, error))) from error


def check(scenario: Scenario) -> Outcome:
    """Run a scenario and compare with the oracle."""
    return check_world(World(scenario))


def check_world(world: World) -> Outcome:
    """Run a world and compare with the oracle."""
    try:
        outcome = world.run()
        wrong = difference(world.scenario, outcome)
        if wrong is not None:
            raise AssertionError(wrong)
    except Exception as error:
        error.add_note("\n".join([*world.story[-60:], *world.walks()]))
        raise
    return outcome


def difference(scenario: Scenario, outcome: Outcome) -> str | None:
    """How a run differs from what the oracle says; None if it does not."""
    for stream, count in outcome.aside.items():
        late = kept(scenario, stream)[1].num_rows
        if count != late:
            return f"{stream}: {count} set aside, the oracle says {late}"
    for query in outcome.queries:
        wrong = _query_difference(scenario, query)
        if wrong is not None:
            return f"{query.query_id}, {query.state} {query.reason}, {query.spec.text}: {wrong}"
    return None


def _query_difference(scenario: Scenario, query: Delivered) -> str | None:
    if query.state is QueryState.COMPLETED:
        assert query.first_tick is not None
        return same_rows(query.rows, _expected(scenario, query))
    excuse = _excused(query)
    if excuse is not None or query.first_tick is None:
        return excuse
    return _not_among(query.rows, _expected(scenario, query))


def _expected(scenario: Scenario, query: Delivered) -> pa.Table:
    assert query.first_tick is not None
    return expected_rows(scenario, query.spec, query.first_tick, query.rows.schema, query.begins)


def _excused(query: Delivered) -> str | None:
    """A query may end without all rows only if it was dropped, or a disk that it needs was lost, and then says so."""
    if query.state is QueryState.DROPPED and query.drop_called:
        return None
    if query.forgotten:
        # Its home died before it had promised anything, or lost its disk.
        return None
    is_given_up = query.state is QueryState.FAILED and query.gave_up
    if is_given_up and (GIVEN_UP in query.reason or "by a user" in query.reason):
        return None
    if query.disk_lost and ("data loss" in query.reason or is_given_up):
        return None
    if query.hurt and "policy delta does not outlive that" in query.reason:
        return None
    if "ready within" in query.reason:
        # Who gave it up may have died before it could say so.
        return None if query.away_us >= LONG_US else "nobody was away for long"
    return "it was given up, and says something else" if is_given_up else "it must complete"


def _not_among(got: pa.Table, want: pa.Table) -> str | None:
    """What there is more of than the oracle says."""
    codes = row_codes(got, want)
    size = int(codes.max(initial=-1)) + 1
    counts = [np.bincount(part, minlength=size) for part in (codes[: got.num_rows], codes[got.num_rows :])]
    surplus = int((counts[0] - counts[1]).clip(min=0).sum())
    return f"{surplus} rows too many, of those it gave before it ended" if surplus else None


def _shorten(scenario: Scenario, error: Exception) -> tuple[Scenario, Exception]:
    """Greedy: take any simplification that still fails, until none does or enough were tried."""
    improved = True
    tries = SHORTEN_TRIES_MAX
    while improved:
        improved = False
        for simpler in _simpler(scenario):
            tries -= 1
            if tries < 0:
                return scenario, error
            try:
                check(simpler)
            except Exception as still:
                # What is no scenario any more fails too, in another way.
                if type(still) is type(error):
                    scenario, error, improved = simpler, still, True
                    break
    return scenario, error


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    yield from _simpler_in_faults(scenario)
    yield from _simpler_in_queries(scenario)
    for index, data in enumerate(scenario.streams):
        for fewer in _fewer(data):
            yield replace(scenario, streams=(*scenario.streams[:index], fewer, *scenario.streams[index + 1 :]))
    if scenario.delay_us_max:
        yield replace(scenario, delay_us_max=scenario.delay_us_max // 10)
    if scenario.paced:
        yield replace(scenario, paced=False)


def _simpler_in_faults(scenario: Scenario) -> Iterator[Scenario]:
    for index in range(len(scenario.restarts)):
        yield replace(scenario, restarts=scenario.restarts[:index] + scenario.restarts[index + 1 :])
    for index in range(len(scenario.crashes)):
        yield replace(scenario, crashes=scenario.crashes[:index] + scenario.crashes[index + 1 :])
    if scenario.sync_us:
        yield replace(scenario, sync_us=0)
    if scenario.has_quota:
        yield replace(scenario, limits=replace(scenario.limits, log_bytes_max=NO_QUOTA))
    if scenario.damaged_per_mille:
        yield replace(scenario, damaged_per_mille=0)
    for index in range(len(scenario.faults)):
        yield replace(scenario, faults=scenario.faults[:index] + scenario.faults[index + 1 :])


def _simpler_in_queries(scenario: Scenario) -> Iterator[Scenario]:
    for index, query in enumerate(scenario.queries):
        rest = (scenario.queries[:index], scenario.queries[index + 1 :])
        if len(scenario.queries) > 1:
            yield replace(scenario, queries=rest[0] + rest[1])
        for simpler in _simpler_queries(query):
            yield replace(scenario, queries=(*rest[0], simpler, *rest[1]))


def _simpler_queries(query: QuerySpec) -> Iterator[QuerySpec]:
    yield from _simpler_fates(query)
    if query.residuals:
        yield replace(query, residuals=())
    for index, ref in enumerate(query.refs):
        if ref.where is not None:
            refs = (*query.refs[:index], replace(ref, where=None), *query.refs[index + 1 :])
            yield replace(query, refs=refs)
    if len(query.refs) > 2 and not query.has_trees:
        for alias in query.aliases:
            yield query.without(alias)
    for index, way in enumerate(query.ways):
        if way.start is not None:
            yield replace(query, ways=(*query.ways[:index], replace(way, start=None), *query.ways[index + 1 :]))


def _simpler_fates(query: QuerySpec) -> Iterator[QuerySpec]:
    fateless = replace(query, drop_after_reads=None, drop_after_us=None, given_up=None)
    if fateless != query:
        yield fateless
    for index in range(len(query.replans)):
        yield replace(query, replans=query.replans[:index] + query.replans[index + 1 :])
    if query.beginning != DEFAULT_BEGINNING:
        yield replace(query, beginning=DEFAULT_BEGINNING)


def _fewer(data: StreamData) -> Iterator[StreamData]:
    size = len(data.ts) // 2
    while size >= 1:
        for start in range(0, len(data.ts), size):
            yield data.without(start, start + size)
        size //= 2


def _report(seed: int, scenario: Scenario, error: Exception) -> str:
    story = "\n".join(getattr(error, "__notes__", []))
    return (
        f"seed {seed} failed: {type(error).__name__}: {error}\n"
        f"rerun: python -m tests.sim --seed {seed}\nshortest scenario: {scenario}\nits story ends:\n{story}"
    )
