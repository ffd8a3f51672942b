"""Judge a seed: run it, ask the oracle, and if they differ find a shorter story that still differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from node.core.effects import QueryState
from tests.oracle.compare import same_rows
from tests.oracle.oracle import OracleStream, accepted, expected
from tests.sim.scenario import Scenario, StreamData, scenario_of
from tests.sim.world import Outcome, World

SHORTEN_TRIES_MAX = 300
OUTPUTS = [("an", "a", "n"), ("k", "a", "key"), ("at", "a", "text"), ("bn", "b", "n"), ("bt", "b", "text")]


def check_seed(seed: int) -> Outcome:
    """Run a seed; AssertionError with the shortest story found if a promise is broken."""
    scenario = scenario_of(seed)
    try:
        return check(scenario)
    except Exception as error:
        raise AssertionError(_report(seed, *_shorten(scenario, error))) from error


def check(scenario: Scenario) -> Outcome:
    """Run a scenario and compare with the oracle."""
    world = World(scenario)
    try:
        outcome = world.run()
        if outcome.state is not QueryState.COMPLETED:
            _check_excused(scenario, outcome)
            return outcome
        wrong = difference(scenario, outcome)
        if wrong is not None:
            raise AssertionError(wrong)
    except Exception as error:
        error.add_note("\n".join(world.story[-60:]))
        raise
    return outcome


def difference(scenario: Scenario, outcome: Outcome) -> str | None:
    """How a completed run differs from what the oracle says; None if it does not."""
    kept = [accepted(data.table(), "ts", *_tick(scenario, data)) for data in scenario.streams]
    for data, (_, late) in zip(scenario.streams, kept, strict=True):
        if outcome.aside.get(data.name, 0) != late.num_rows:
            return f"{data.name}: {outcome.aside} set aside, the oracle says {late.num_rows}"
    return same_rows(outcome.rows, _oracle(scenario, [table for table, _ in kept]))


def _check_excused(scenario: Scenario, outcome: Outcome) -> None:
    """A query may end without all rows only because a daemon died, and then says which."""
    if scenario.restart is None:
        raise AssertionError(f"the query ended as {outcome.state}: {outcome.reason}")
    if scenario.restart.site != scenario.sink and f"site {scenario.restart.site}" not in outcome.reason:
        raise AssertionError(f"{scenario.restart.site} died, and the query says: {outcome.reason}")


def _tick(scenario: Scenario, data: StreamData) -> tuple[int, int]:
    scale = 1000 if data.unit == "us" else 1
    return scenario.tau_ms * scale, data.lateness_ms * scale


def _oracle(scenario: Scenario, tables: list[pa.Table]) -> pa.Table:
    streams = [
        OracleStream(alias, table, "ts", data.unit, (kind, size * 1000 if kind == "range" else size))
        for alias, table, data, (kind, size) in zip("ab", tables, scenario.streams, scenario.windows, strict=True)
    ]
    return expected(streams, [(("a", "key"), ("b", "key"))], OUTPUTS)


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
                scenario, error, improved = simpler, still, True
                break
    return scenario, error


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    if scenario.restart is not None:
        yield replace(scenario, restart=None)
    if scenario.damaged_per_mille:
        yield replace(scenario, damaged_per_mille=0)
    for index in range(len(scenario.faults)):
        yield replace(scenario, faults=scenario.faults[:index] + scenario.faults[index + 1 :])
    left, right = scenario.streams
    for half in _fewer(left):
        yield replace(scenario, streams=(half, right))
    for half in _fewer(right):
        yield replace(scenario, streams=(left, half))
    if scenario.delay_us_max:
        yield replace(scenario, delay_us_max=scenario.delay_us_max // 10)
    if scenario.paced:
        yield replace(scenario, paced=False)


def _fewer(data: StreamData) -> Iterator[StreamData]:
    size = len(data.ts) // 2
    while size >= 1:
        for start in range(0, len(data.ts), size):
            end = start + size
            yield replace(data, ts=data.ts[:start] + data.ts[end:], keys=data.keys[:start] + data.keys[end:])
        size //= 2


def _report(seed: int, scenario: Scenario, error: Exception) -> str:
    story = "\n".join(getattr(error, "__notes__", []))
    return (
        f"seed {seed} failed: {type(error).__name__}: {error}\n"
        f"rerun: python -m tests.sim --seed {seed}\nshortest scenario: {scenario}\nits story ends:\n{story}"
    )
