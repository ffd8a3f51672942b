"""Following into a file: what Ctrl-C interrupts is written and counted, or neither."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.tasks import output
from cli.tasks.follow import follow
from cli.tasks.interruption import uninterrupted
from node.client import Client
from node.rpc import control_pb2 as pb

SCHEMA = pa.schema([("n", pa.int64())])


class Replies:
    """A follower with three chunks, who notes what he is told is taken."""

    def __init__(self) -> None:
        self.told = 0
        chunks = [pa.RecordBatch.from_pydict({"n": [number]}, schema=SCHEMA) for number in range(3)]
        self._replies = iter(
            [
                pb.FollowReply(schema=SCHEMA.serialize().to_pybytes()),
                *(pb.FollowReply(number=at, rows=rows.serialize().to_pybytes()) for at, rows in enumerate(chunks)),
            ]
        )

    def __iter__(self) -> Any:
        return self._replies

    def taken(self, number: int) -> None:
        self.told = number

    seen = taken

    def close(self) -> None:
        pass

    cancel = close


class Daemon:
    def __init__(self) -> None:
        self.replies = Replies()

    def follow(self, query_id: str) -> Replies:
        return self.replies


@pytest.fixture(autouse=True)
def _interruptible() -> Any:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_rows_are_written_leaves_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_ROW_GROUP_BYTES", 1)
    write = output.ParquetOutput._write_group

    def interrupted(self: output.ParquetOutput) -> None:
        writer = self._writer.write_table

        def write_table(table: pa.Table) -> None:
            writer(table)
            os.kill(os.getpid(), signal.SIGINT)

        self._writer.write_table = write_table
        write(self)

    monkeypatch.setattr(output.ParquetOutput, "_write_group", interrupted)
    daemon, path = Daemon(), tmp_path / "rows.parquet"
    followed = follow(cast("Client", daemon), "q", path, None, lambda *_: None)
    assert followed.detached
    assert pq.read_table(path).column("n").to_pylist() == list(range(followed.rows))
    assert daemon.replies.told == followed.written == followed.rows == 1


def test_ctrl_c_counts_when_the_block_is_done() -> None:
    done = []

    def work() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_thread_may_follow_too(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        path = tmp_path / "rows.csv"
        followed = pool.submit(follow, cast("Client", Daemon()), "q", path, None, lambda *_: None).result()
    assert followed.rows == 3
