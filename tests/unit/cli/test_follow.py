"""Following into a file: what Ctrl-C interrupts is written and counted, or neither."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.failures import said
from cli.tasks.delivery import deliver
from cli.tasks.follow import follow
from cli.tasks.interruption import uninterrupted
from node.client import AwayTooLongError, Client, DaemonFailedError, NoRoomError, NotNowError, UnknownQueryError
from node.client.errors import error_of
from node.io.results import row_formats
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError

SCHEMA = pa.schema([("n", pa.int64())])


class Replies:
    """A follower with three chunks, and how the query ended, who notes what he is told is taken."""

    def __init__(self, state: str) -> None:
        self.told = 0
        self._next_row = 0
        chunks = [pa.RecordBatch.from_pydict({"n": [number]}, schema=SCHEMA) for number in range(3)]
        self._replies = iter(
            [
                pb.FollowReply(schema=SCHEMA.serialize().to_pybytes()),
                *(pb.FollowReply(first_row=at, rows=rows.serialize().to_pybytes()) for at, rows in enumerate(chunks)),
                pb.FollowReply(info=pb.QueryInfo(state=state, reason="so it is")),
            ]
        )

    run = client = "that one"

    def __iter__(self) -> Any:
        return self._replies

    @property
    def next_row(self) -> int:
        return self._next_row

    def passed(self, rows: int) -> None:
        self._next_row += rows

    def close(self) -> None:
        pass


class Daemon:
    patience = None
    site = "alpha"

    def __init__(self, state: str = "completed") -> None:
        self.replies = Replies(state)

    def follow(self, query_id: str, reader: str) -> Replies:
        return self.replies

    def take(self, query_id: str, run: str, before: int, **_: object) -> None:
        self.replies.told = before


@pytest.fixture(autouse=True)
def _interruptible() -> Any:
    """What ends a command does so as in ``dispatch``."""
    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, lambda which, _: sys.exit(128 + which))
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_ctrl_c_while_rows_are_written_leaves_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_formats, "_ROW_GROUP_BYTES", 1)
    write = row_formats.ParquetOutput._write_group

    def interrupted(self: row_formats.ParquetOutput) -> None:
        writer = self._writer.write_table

        def write_table(table: pa.Table) -> None:
            writer(table)
            os.kill(os.getpid(), signal.SIGINT)

        self._writer.write_table = write_table
        write(self)

    monkeypatch.setattr(row_formats.ParquetOutput, "_write_group", interrupted)
    daemon, path = Daemon(), tmp_path / "rows.parquet"
    followed = follow(cast("Client", daemon), "q", path, None, lambda *_: None)
    assert followed.detached
    assert pq.read_table(path).column("n").to_pylist() == list(range(followed.rows))
    assert daemon.replies.told == followed.written == followed.rows == 1


def test_that_a_query_is_dropped_is_heard_from_its_replies_not_from_what_was_to_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site forgets a query that is dropped before its follower has read how it ended."""

    class Forgetful(Daemon):
        def take(self, query_id: str, run: str, before: int, **_: object) -> None:
            raise UnknownQueryError(f"unknown query {query_id}", "alpha")

    monkeypatch.setattr("cli.tasks.follow._ACK_EVERY_S", 0)
    followed = follow(cast("Client", Forgetful("dropped")), "q", tmp_path / "rows.csv", None, lambda *_: None)
    assert (followed.rows, followed.info.state) == (3, "dropped")


@pytest.mark.parametrize("state", ["completed", "failed"])
@pytest.mark.parametrize(
    ("error", "untold"),
    [
        (NoRoomError("No space left"), "has no room on its disk to note which rows were taken"),
        (DaemonFailedError("it burns"), "did not note which rows were taken (it burns)"),
        (NotNowError("it is followed"), "did not note which rows were taken (it is followed)"),
        (AwayTooLongError("for long"), "is away and could not be told which rows were taken"),
    ],
)
def test_rows_are_whole_although_the_site_does_not_note_that_they_were_taken(
    tmp_path: Path, state: str, error: NarrowsError, untold: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(Daemon):
        def take(self, query_id: str, run: str, before: int, **_: object) -> None:
            raise error

    path = tmp_path / "rows.csv"
    if state == "completed":
        assert deliver(cast("Client", Full(state)), "q", path, None) == 0
        assert path.read_text().splitlines() == ['"n"', "0", "1", "2"]
    else:
        with pytest.raises(NarrowsError, match="query q failed: so it is\n3 rows came before and are in"):
            deliver(cast("Client", Full(state)), "q", path, None)
    assert f"site alpha {untold}; some rows will come again" in capsys.readouterr().err


def test_rows_that_do_not_come_are_waited_for_as_long_as_was_asked_for(tmp_path: Path) -> None:
    class Waiting(Replies):
        """One of a query whose site is away."""

        def __iter__(self) -> Any:
            yield next(self._replies)
            away = [pb.AwaySite(site="bow", trouble="refused", seconds=60)]
            until_s = time.monotonic() + 20
            while time.monotonic() < until_s:
                yield pb.FollowReply(info=pb.QueryInfo(query_id="q", state="running", away=away))

    daemon = Daemon()
    daemon.replies = Waiting("running")
    with pytest.raises(AwayTooLongError, match=r"(?s)site bow is away for 60 s .*: narrows follow q --as me") as raised:
        deliver(cast("Client", daemon), "q", tmp_path / "rows.csv", None, "me", 0.05)
    assert said(raised.value)[1] == 3


@pytest.mark.parametrize(
    ("code", "expected"),
    [(grpc.StatusCode.INVALID_ARGUMENT, 2), (grpc.StatusCode.NOT_FOUND, 2), (grpc.StatusCode.INTERNAL, 1)],
)
def test_what_a_daemon_refuses_because_it_is_not_right_has_the_code_that_says_so(
    code: grpc.StatusCode, expected: int
) -> None:
    refusal = cast("grpc.RpcError", SimpleNamespace(code=lambda: code, details=lambda: "no"))
    assert said(error_of(refusal, "alpha", "127.0.0.1:1")) == ("no", expected)


@pytest.mark.parametrize(
    ("number", "raised"), [("SIGINT", KeyboardInterrupt), ("SIGTERM", SystemExit), ("SIGHUP", SystemExit)]
)
def test_what_ends_a_command_counts_when_the_block_is_done(number: str, raised: type[BaseException]) -> None:
    done, which = [], signal.Signals[number]
    before = signal.getsignal(which)

    def work() -> None:
        with uninterrupted():
            os.kill(os.getpid(), which)
            done.append(True)

    with pytest.raises(raised):
        work()
    assert done
    assert signal.getsignal(which) is before


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with uninterrupted():
        os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_is_stopped_as_the_file_is_opened_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    made = row_formats.row_output

    def stopped(*arguments: Any) -> Any:
        os.kill(os.getpid(), number)
        return made(*arguments)

    monkeypatch.setattr("cli.tasks.output.row_output", stopped)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        follow(cast("Client", Daemon()), "q", tmp_path / "rows.parquet", None, lambda *_: None)
    assert not list(tmp_path.iterdir())


def test_another_thread_may_follow_too(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        path = tmp_path / "rows.csv"
        followed = pool.submit(follow, cast("Client", Daemon()), "q", path, None, lambda *_: None).result()
    assert followed.rows == 3


# -- queries that do not get to their end -----------------------------------------------------


@pytest.mark.parametrize("state", ["failed", "dropped"])
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl"])
def test_a_query_that_ends_early_replaces_no_file(tmp_path: Path, state: str, name: str) -> None:
    good = tmp_path / name
    good.write_bytes(b"a million rows")
    partial = good.with_stem("rows.partial")
    for expected in (partial, good.with_stem("rows.partial-2")):
        daemon = Daemon(state)
        with pytest.raises(NarrowsError) as raised:
            deliver(cast("Client", daemon), "q", good, None)
        text = f"query q {state}: so it is\n3 rows came before and are in {expected}; {good} is as it was"
        assert str(raised.value) == text
        assert said(raised.value)[1] == 1
        assert daemon.replies.told == 3, "they are safe, under their own name"
        assert good.read_bytes() == b"a million rows"
    if name.endswith("parquet"):
        assert pq.read_table(partial).column("n").to_pylist() == [0, 1, 2]
    else:
        assert partial.read_text().count("\n") == (4 if name.endswith("csv") else 3)
    assert sorted(tmp_path.iterdir()) == sorted([good, partial, good.with_stem("rows.partial-2")])


def test_a_stream_of_rows_that_just_stops_replaces_no_file(tmp_path: Path) -> None:
    good = tmp_path / "rows.csv"
    good.write_bytes(b"a million rows")
    daemon = Daemon()
    daemon.replies._replies = iter([*daemon.replies._replies][:-1])
    with pytest.raises(NarrowsError, match="query q ended without a word"):
        deliver(cast("Client", daemon), "q", good, None)
    assert good.read_bytes() == b"a million rows"


def test_a_query_that_completes_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a million rows")
    assert deliver(cast("Client", Daemon()), "q", path, None) == 0
    assert path.read_text().splitlines() == ['"n"', "0", "1", "2"]
    assert [*tmp_path.iterdir()] == [path]


def test_rows_that_were_printed_before_a_query_failed_are_not_said_to_be_all(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    with pytest.raises(NarrowsError, match="query q failed: so it is\n3 rows came before, which are not all"):
        deliver(cast("Client", Daemon("failed")), "q", None, "csv")
