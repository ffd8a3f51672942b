"""Files that the command writes."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.tasks.output import FileOutput, OutputNameError, check_file
from node.io.results.row_formats import row_output


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


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    """A file takes its name when it is whole, so a device of that name would be gone."""
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    for place in (pipe, Path("/dev/null")):
        with pytest.raises(OutputNameError, match="--out requires a regular file; got the device or pipe"):
            check_file("--out", place)
    check_file("--out", tmp_path / "new.csv")


def test_of_a_link_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "behind").mkdir()
    target, link = tmp_path / "behind" / "rows.csv", tmp_path / "rows.csv"
    target.write_text("old")
    link.symlink_to(target)
    output = FileOutput(link, None, pa.schema([("n", pa.int64())]))
    output.write(pa.RecordBatch.from_pydict({"n": [7]}))
    output.finish()
    assert link.is_symlink()
    assert "7" in target.read_text()


def test_an_arrow_stream_is_read_back_and_can_be_written_on_where_it_was_cut(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    path = tmp_path / "rows.arrows"
    with path.open("wb") as file:
        output = row_output(file, "arrows", schema)
        output.write(pa.RecordBatch.from_pydict({"n": [1, 2]}, schema=schema))
    with path.open("ab") as file:
        output = row_output(file, "arrows", schema, begins=False)
        output.write(pa.RecordBatch.from_pydict({"n": [3]}, schema=schema))
        output.finish()
    with pa.ipc.open_stream(path) as stream:
        assert stream.read_all().column("n").to_pylist() == [1, 2, 3]
