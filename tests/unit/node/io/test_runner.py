"""The loop around a real stack: turns, the clock, and rows that are stored."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from node.codec import cut
from node.core.effects import (
    QueryState,
    ReadSource,
    ReportQuery,
    ReportSwitch,
    SetAside,
    StoreRows,
    SwitchState,
    WriteRecords,
)
from node.core.events import DropRequested, ReplanRequested, RowsStored, SourceFailed
from node.core.limits import Limits
from node.core.links.lives import Met
from node.core.records import Put, RecordChange
from node.core.streams.ticks import Span
from node.io.clock import Clock
from node.io.planning.outcome import Planned
from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.runner import RESTING_S, TIMER_S, Runner
from node.io.sources.late_files import LateFiles
from node.io.threads.file_thread import FileThread
from node.io.threads.storage_thread import StorageThread
from node.stack import (
    ConnectionClosed,
    Input,
    LifeRemembered,
    Output,
    RememberLife,
    SendFrame,
    Stack,
    TimePassed,
)
from node.storage.errors import DiskFailedError, StorageError
from node.storage.headroom import Headroom
from node.storage.site_records import NoRecords
from node.storage.stream_logs import StreamLogs
from planner.model.query import Algorithm
from tests.unit.sites import Cluster

PATIENCE_S = 30.0
ROWS = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})


class Heard(Stack):
    """A stack that notes what it is given in each turn, and answers with what the test wants done."""

    def __init__(self) -> None:
        super().__init__("c", "cam", ["ash"], 100, 1, [], Limits())
        self.turns: list[list[Input]] = []
        self.answers: list[list[Output]] = []
        self.is_resting = True
        self.broken = False

    def handle(self, inputs: Iterable[Input], now_us: int) -> list[Output]:
        if self.broken:
            raise RuntimeError("a bug")
        self.turns.append(list(inputs))
        return self.answers.pop(0) if self.answers else []

    @property
    def resting(self) -> bool:
        return self.is_resting

    def heard(self, kind: type[Any]) -> list[list[Input]]:
        """By turn, those of a kind; turns without any are left out."""
        return [found for turn in self.turns if (found := [item for item in turn if isinstance(item, kind)])]


class Driven:
    """A runner, its stack and a query."""

    def __init__(self, folder: Path) -> None:
        self.stack = Heard()
        self.files = FileThread(asyncio.get_running_loop())
        self.files.start()
        self.queries = Queries("cam", folder / "queries", self.files)
        self.runner = Runner(self.stack, Clock(), self.queries, LateFiles(folder / "late"), self.files)
        self.query: IssuedQuery = self.queries.new(Planned(Cluster().plan("cam")))

    def store(self, tick: int) -> StoreRows:
        return StoreRows(self.query.query_id, "a", Span(tick, tick + 1), 0, ROWS)


def drive(folder: Path, test: Callable[[Driven], Awaitable[None]]) -> None:
    async def driven() -> None:
        made = Driven(folder)
        running = asyncio.create_task(made.runner.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await test(made)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            made.runner.close()
            made.files.stop()

    asyncio.run(driven())


async def until(said: Callable[[], object]) -> None:
    while not said():
        await asyncio.sleep(0.005)


def test_what_happened_since_the_last_turn_is_one_turn_and_nothing_is_none(tmp_path: Path) -> None:
    async def test(made: Driven) -> None:
        await until(lambda: made.stack.turns)
        for name in ("a", "b"):
            made.runner.put([DropRequested(name)])
        made.runner.put([])
        await until(lambda: made.stack.heard(DropRequested))
        assert made.stack.heard(DropRequested) == [[DropRequested("a"), DropRequested("b")]]
        assert all(made.stack.turns)

    drive(tmp_path, test)


def test_what_happened_before_the_runner_runs_is_not_lost(tmp_path: Path) -> None:
    async def test() -> None:
        made = Driven(tmp_path)
        made.runner.put([DropRequested("early")])
        running = asyncio.create_task(made.runner.run())
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: made.stack.heard(DropRequested))
        running.cancel()
        made.files.stop()

    asyncio.run(test())


def test_a_life_of_a_peer_is_for_who_keeps_records(tmp_path: Path) -> None:
    """On a full disk it has the room that is reserved for records."""

    async def test(made: Driven) -> None:
        nobody, given = cast("Any", None), list[Any]()
        keeper = StorageThread(
            StreamLogs({}),
            NoRecords(1),
            LateFiles(tmp_path / "aside"),
            Headroom(tmp_path, 4096),
            made.runner,
            lambda *_: None,
        )
        keeper.put = given.append  # type: ignore[assignment,method-assign]
        made.runner.connect(nobody, nobody, keeper, {})
        made.stack.answers = [[RememberLife("ash", Met(1))]]
        made.runner.put([DropRequested("wakes it")])
        await until(lambda: given)
        assert given == [RememberLife("ash", Met(1))]
        made.runner.put_from_thread([LifeRemembered("ash", Met(1))])
        await until(lambda: made.stack.heard(LifeRemembered))

    drive(tmp_path, test)


def test_the_time_is_told_often_while_a_query_runs_and_seldom_while_none_does(tmp_path: Path) -> None:
    async def test(made: Driven) -> None:
        await until(lambda: made.stack.turns)
        await asyncio.sleep(2 * RESTING_S)
        assert 1 <= len(made.stack.turns) <= 4
        made.stack.is_resting = False
        made.runner.put([DropRequested("wakes it")])
        before = len(made.stack.turns)
        await until(lambda: len(made.stack.turns) >= before + 5)
        assert all(isinstance(item, TimePassed) for turn in made.stack.turns[before + 1 :] for item in turn)

    drive(tmp_path, test)


def test_the_time_rides_on_a_turn_that_comes_anyway(tmp_path: Path) -> None:
    async def test(made: Driven) -> None:
        await until(lambda: made.stack.turns)
        for _ in range(10):
            await asyncio.sleep(TIMER_S)
            made.runner.put([DropRequested("something")])
        await until(lambda: len(made.stack.heard(DropRequested)) == 10)
        with_time = [turn for turn in made.stack.turns if len(turn) == 2]
        assert [type(turn[1]) for turn in with_time] == [TimePassed] * len(with_time)
        assert len(with_time) >= 5

    drive(tmp_path, test)


def test_a_bug_in_the_core_ends_the_runner(tmp_path: Path) -> None:
    async def test() -> None:
        made = Driven(tmp_path)

        made.stack.broken = True
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(RuntimeError, match="a bug"):
                await made.runner.run()
        made.files.stop()

    asyncio.run(test())


def test_a_source_that_raises_what_it_must_not_ends_the_runner(tmp_path: Path) -> None:
    """Else its stream would stand still, and nobody would know."""

    def read(origin_ms: int | None) -> None:
        raise KeyError("a bug")

    async def test() -> None:
        made = Driven(tmp_path)
        made.runner.connect(None, None, None, {"l": SimpleNamespace(read=read)})  # type: ignore[arg-type]
        made.stack.answers.append([ReadSource("l", None)])
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(KeyError, match="a bug"):
                await made.runner.run()
        made.files.stop()

    asyncio.run(test())


def test_rows_of_a_turn_are_stored_together_and_confirmed_in_one_turn(tmp_path: Path) -> None:
    async def test(made: Driven) -> None:
        made.stack.answers = [[made.store(1), made.store(2), made.store(3)]]
        await until(lambda: made.stack.heard(RowsStored))
        stored = [RowsStored(made.query.query_id, "a", Span(tick, tick + 1)) for tick in (1, 2, 3)]
        assert made.stack.heard(RowsStored) == [stored]
        assert (made.query.spool.rows, len(made.query.spool.pieces(0, 9, 1 << 20))) == (9, 1)

    drive(tmp_path, test)


def test_a_query_that_ends_in_the_turn_of_its_last_rows_has_them(tmp_path: Path) -> None:
    async def test(made: Driven) -> None:
        ended = ReportQuery(made.query.query_id, QueryState.COMPLETED, "")
        made.stack.answers = [[made.store(1), ended]]
        await until(lambda: made.query.state.ended)
        assert made.query.spool.rows == 3

    drive(tmp_path, test)


def test_tuples_that_cannot_be_set_aside_fail_their_stream(tmp_path: Path) -> None:
    (tmp_path / "late").write_text("in the way")

    async def test(made: Driven) -> None:
        made.stack.answers = [[SetAside("orders", ROWS, "late")]]
        await until(lambda: made.stack.heard(SourceFailed))
        ((failed,),) = made.stack.heard(SourceFailed)
        assert isinstance(failed, SourceFailed)
        assert failed.reason.startswith("3 late tuples cannot be written to late_dir: ")

    drive(tmp_path, test)


# -- what is kept on disk -----------------------------------------------------------------------


class SlowRecords(NoRecords):
    """Records that are durable when the test says so."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked = threading.Event()
        self.may = threading.Event()
        self.error: StorageError | None = None

    def commit(self, changes: Iterable[RecordChange]) -> None:
        self.asked.set()
        self.may.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error


class Counted:
    """A source that counts how often it is read."""

    reads = 0

    def read(self, origin_ms: int | None) -> SourceFailed:
        self.reads += 1
        return SourceFailed("orders", "nothing")


def connected(made: Driven, folder: Path, records: SlowRecords, source: Counted) -> StorageThread:
    parts = (LateFiles(folder / "aside"), Headroom(folder, 4096), made.runner)
    storage = StorageThread(StreamLogs({}), records, *parts, lambda *_: None)
    storage.start()
    nobody: Any = None
    sources: Any = {"orders": source}
    made.runner.connect(nobody, nobody, storage, sources)
    return storage


RECORD = WriteRecords((Put("pin", "a", b""),))


def test_what_follows_a_record_waits_for_the_disk_and_the_loop_does_not(tmp_path: Path) -> None:
    records = SlowRecords()

    async def test(made: Driven) -> None:
        storage = connected(made, tmp_path, records, Counted())
        ended = ReportQuery(made.query.query_id, QueryState.COMPLETED, "")
        made.stack.answers = [[RECORD, made.store(1), ended]]
        await until(records.asked.is_set)
        turns = len(made.stack.turns)
        made.runner.put([DropRequested("meanwhile")])
        await until(lambda: made.stack.heard(DropRequested))
        assert len(made.stack.turns) > turns
        assert not made.query.state.ended
        records.may.set()
        await until(lambda: made.query.state.ended)
        assert made.query.spool.rows == 3
        storage.stop()

    drive(tmp_path, test)


def test_what_waits_for_a_connection_that_is_gone_is_not_kept_while_the_disk_is_full(tmp_path: Path) -> None:
    records, sent = SlowRecords(), list[SendFrame]()

    async def test(made: Driven) -> None:
        storage = connected(made, tmp_path, records, Counted())
        made.runner._transport = cast("Any", SimpleNamespace(send=sent.append))
        gone, other = (SendFrame("ash", number, cut(b"x")) for number in (1, 2))
        ended = ReportQuery(made.query.query_id, QueryState.COMPLETED, "")
        made.stack.answers = [[RECORD, gone, other, ended]]
        await until(records.asked.is_set)
        made.runner.put([ConnectionClosed("ash", 1, "silent")])
        await until(lambda: made.stack.heard(ConnectionClosed))
        records.may.set()
        await until(lambda: made.query.state.ended)
        assert sent == [other]
        storage.stop()

    drive(tmp_path, test)


def test_while_the_disk_is_full_no_source_is_read(tmp_path: Path) -> None:
    source = Counted()

    async def test(made: Driven) -> None:
        storage = connected(made, tmp_path, SlowRecords(), source)
        made.runner.disk_from_thread("no room")
        await until(lambda: made.runner.disk_trouble)
        made.stack.answers = [[ReadSource("orders", None)]]
        made.runner.put([DropRequested("turn")])
        await until(lambda: made.stack.heard(DropRequested))
        await asyncio.sleep(0.05)
        assert source.reads == 0
        made.runner.disk_from_thread("")
        await until(lambda: made.stack.heard(SourceFailed))
        assert source.reads == 1
        storage.stop()

    drive(tmp_path, test)


def test_a_disk_that_fails_ends_the_daemon(tmp_path: Path) -> None:
    async def test() -> None:
        made = Driven(tmp_path)
        records = SlowRecords()
        records.may.set()
        records.error = DiskFailedError("site.db required a disk that keeps what is written; got disk I/O error")
        storage = connected(made, tmp_path, records, Counted())
        made.stack.answers = [[RECORD]]
        with pytest.raises(DiskFailedError, match=r"site\.db required a disk"):
            async with asyncio.timeout(PATIENCE_S):
                await made.runner.run()
        storage.stop()
        made.runner.close()
        made.files.stop()

    asyncio.run(test())


def test_who_asks_for_another_plan_hears_the_first_that_is_said_of_it(tmp_path: Path) -> None:
    """A refusal comes while another switch is under way, and what is said of that one is no answer to it."""

    async def test(made: Driven) -> None:
        await until(lambda: made.stack.turns)
        query_id = made.query.query_id
        plan = Cluster().plan("cam", Algorithm.SM_S1)
        first = asyncio.create_task(made.runner.replan(query_id, plan, "the first"))
        second = asyncio.create_task(made.runner.replan(query_id, plan, "the second"))
        await until(lambda: made.stack.heard(ReplanRequested))
        said: list[Output] = [
            ReportSwitch(query_id, 7, SwitchState.PREPARING, plan, "the first"),
            ReportSwitch(query_id, 7, SwitchState.SWITCHING, plan, "the first"),
            ReportSwitch(query_id, 8, SwitchState.GIVEN_UP, plan, "the second", "it goes over already"),
        ]
        made.stack.answers += [said[:2], said[2:]]
        made.runner.put([DropRequested("any")])
        assert await first == said[0]
        made.runner.put([DropRequested("any")])
        assert await second == said[2]
        (change,) = made.query.switches
        assert (change.why, change.state, change.before_brief != change.after_brief) == (
            "the first",
            SwitchState.SWITCHING,
            True,
        )

    drive(tmp_path, test)
