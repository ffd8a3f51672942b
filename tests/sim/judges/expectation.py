"""What the oracle says about a query of a scenario: the definition, applied to the scenario's data alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from tests.oracle.oracle import OracleStream, accepted, expected
from tests.sim.scenarios.predicates import Col, Rows
from tests.sim.scenarios.queries import QuerySpec, Ref
from tests.sim.scenarios.scenario import Scenario, StreamData


def kept(scenario: Scenario, stream: str) -> tuple[pa.Table, pa.Table]:
    """The tuples of a stream that are not late, and those that are."""
    data = scenario.data(stream)
    scale = 1000 if data.unit == "us" else 1
    return accepted(data.table(), "ts", scenario.tau_ms * scale, data.lateness_ms * scale)


def seen(scenario: Scenario, ref: Ref, begin: int) -> pa.Table:
    """The tuples of a stream that a query sees: from a tick on, and past its filter."""
    table, data = kept(scenario, ref.stream)[0], scenario.data(ref.stream)
    mask = [tick_of(scenario, data, row["ts"]) >= begin and passes(ref, row) for row in table.to_pylist()]
    return table.filter(pa.array(mask, pa.bool_()))


def tick_of(scenario: Scenario, data: StreamData, ts: int) -> int:
    return ts // (scenario.tau_ms * (1000 if data.unit == "us" else 1))


def passes(ref: Ref, row: Mapping[str, Any]) -> bool:
    return ref.where is None or ref.where.value({ref.alias: row}) is True


def expected_rows(
    scenario: Scenario, spec: QuerySpec, first_tick: int, schema: pa.Schema, begins: Mapping[str, int] | None = None
) -> pa.Table:
    """The rows of a query that begin with a tick, as their newest tuple says; ``begins``: by alias, what it sees of a
    stream is from there on, where that is another tick.

    The type of a computed column is taken from ``schema``; all its values must fit.
    """
    known = begins or {}
    tables = {ref.alias: seen(scenario, ref, known.get(ref.alias, first_tick)) for ref in spec.refs}
    streams = [
        OracleStream(ref.alias, tables[ref.alias], "ts", scenario.data(ref.stream).unit, _window(ref))
        for ref in spec.refs
    ]

    def holds(rows: Rows) -> bool:
        return all(residual.value(rows) is True for residual in spec.residuals)

    found = expected(streams, spec.edges, [(alias, alias, "n") for alias in spec.aliases], holds)
    by_number = {alias: {row["n"]: row for row in table.to_pylist()} for alias, table in tables.items()}
    results = [{alias: by_number[alias][n] for alias, n in row.items()} for row in found.to_pylist()]
    # The newest tuple of a row is that with the latest time, so it has the latest tick.
    ticks = {ref.alias: partial(tick_of, scenario, scenario.data(ref.stream)) for ref in spec.refs}
    results = [rows for rows in results if max(ticks[alias](row["ts"]) for alias, row in rows.items()) >= first_tick]
    fields = []
    for name, term in spec.outputs:
        own = tables[term.alias].schema.field(term.column) if isinstance(term, Col) else schema.field(name)
        fields.append(pa.field(name, own.type))
    columns = [
        pa.array([term.value(rows) for rows in results], field.type)
        for (_, term), field in zip(spec.outputs, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _window(ref: Ref) -> tuple[Any, int]:
    kind, size = ref.window
    return kind, size * 1000 if kind == "range" else size
