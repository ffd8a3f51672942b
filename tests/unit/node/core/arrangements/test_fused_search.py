"""Questions of one turn are one search: other tests hold that answers are right, which they would be without it."""

from typing import Any

import pyarrow as pa
import pytest

from node.core.engine import HIGH, LOW, POSITION, Append, OpenIndex, OpenTable, Probe
from node.engine.native import NativeEngine
from node.engine.table import Table


def test_probes_of_many_queries_to_one_index_are_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[Table] = []
    search = Table.search

    def counted(table: Table, *args: Any, **kwargs: Any) -> Any:
        searches.append(table)
        return search(table, *args, **kwargs)

    monkeypatch.setattr(Table, "search", counted)
    schema = pa.schema([(POSITION, pa.int64()), ("key", pa.int64()), ("n", pa.int64())])
    rows = pa.RecordBatch.from_pydict({POSITION: [0, 1], "key": [7, 8], "n": [1, 2]}, schema=schema)
    engine = NativeEngine()
    engine.run([OpenTable("t", schema), OpenIndex("t", ("key",)), Append("t", rows)])
    probes = [
        Probe(
            "t",
            ("key",),
            pa.RecordBatch.from_pydict({f"a{number}.k": [7, number], LOW: [0, 0], HIGH: [2, 2]}),
            (f"a{number}.k",),
            f"b{number}",
            None,
            (f"b{number}.n",),
        )
        for number in range(20)
    ]
    answers = engine.run(probes)
    assert [isinstance(answer, pa.RecordBatch) and answer.num_rows >= 1 for answer in answers] == [True] * 20
    assert len(searches) == 1
