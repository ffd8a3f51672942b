"""Files that the command writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cli.output import FileOutput


def test_many_small_chunks_become_one_row_group(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    output = FileOutput(path, None, pa.schema([("n", pa.int64())]))
    for n in range(50):
        output.write(pa.RecordBatch.from_pydict({"n": [n]}))
    assert not path.exists()
    output.finish()
    assert pq.ParquetFile(path).num_row_groups == 1
    assert pq.read_table(path).column("n").to_pylist() == list(range(50))
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"]
