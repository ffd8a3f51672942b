"""Result rows that a follower does not take hold up the query, so that neither memory nor disk grows without end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from node.core.effects import StoreRows
from node.core.events import RowsStored
from node.core.ticks import Span
from node.io import queries as queries_module
from node.io.planned import Planned
from node.io.queries import Queries
from tests.unit.sites import Cluster


def test_storing_is_confirmed_only_while_the_follower_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Queries("cam", tmp_path)
    query = queries.new(Planned(Cluster().plan("cam")))
    rows = pa.RecordBatch.from_pydict({"n": list(range(100))})
    first, second = (StoreRows(query.query_id, "a", Span(tick, tick + 1), 0, rows) for tick in (1, 2))
    one = rows.serialize().size
    monkeypatch.setattr(queries_module, "UNSENT_BYTES_MAX", one)

    assert queries.store(first, 0) == [RowsStored(query.query_id, "a", Span(1, 2))]
    assert queries.store(second, 0) == []
    assert queries.confirm(query) == []
    query.sent_before(1)  # the follower was sent a chunk
    assert queries.confirm(query) == [RowsStored(query.query_id, "a", Span(2, 3))]
    assert queries.confirm(query) == []
    assert query.spool.rows == 200
