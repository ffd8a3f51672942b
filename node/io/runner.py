"""The one loop: take what happened, let the stack decide, do what it says, feed the results back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, assert_never

from node.barrier import Barrier
from node.core.effects import (
    AppendBatch,
    AskReceipt,
    BlamePeer,
    KeepRecord,
    MeasureStream,
    NoteIgnored,
    OpenLog,
    ReadLog,
    ReadSource,
    RemoveLog,
    RemoveRecord,
    ReportDropped,
    ReportQuery,
    ReportStatistics,
    ReportSwitch,
    RunOp,
    Send,
    SetAside,
    StoreRows,
    TrimLog,
    WriteRecords,
)
from node.core.events import DropRequested, ReplanRequested, SourceFailed, StatisticsRequested
from node.io.clock import Clock
from node.io.planning.outcome import NO_FORECAST, Forecast
from node.io.results.issued_queries import Queries
from node.io.sources.late_files import LateFiles
from node.io.sources.profiler import measure
from node.io.sources.source import Source
from node.io.threads.engine_thread import EngineThread
from node.io.threads.file_thread import FileWork
from node.io.threads.memory_storage import MemoryStorage
from node.io.threads.storage_thread import StorageThread
from node.io.transport import Transport
from node.stack import (
    CloseConnection,
    ConnectionClosed,
    Input,
    Output,
    RememberLife,
    SendFrame,
    Stack,
    TimePassed,
)
from node.wire.records import done_in
from planner.model.query import JoinQuery, Plan

log = logging.getLogger(__name__)

#: The stack hears of the time at least this often while a query runs, and while none does.
TIMER_S = 0.05
RESTING_S = 0.25


class Runner:
    """Drives one stack."""

    def __init__(self, stack: Stack, clock: Clock, queries: Queries, late: LateFiles, files: FileWork) -> None:
        self.stack = stack
        self.clock = clock
        self.ignored: Counter[str] = Counter()
        self.core_seconds = 0.0
        self._queries = queries
        self._late = late
        self._files = files
        self._loop = asyncio.get_running_loop()
        self._inputs: list[Input] = []
        #: Rows to be stored, of this turn: what there is of a query is stored together.
        self._stores: list[StoreRows] = []
        #: Whether the next turn is under way; and what ends when the runner does.
        self._turning = False
        self._over: asyncio.Future[NoReturn] = self._loop.create_future()
        #: When the stack last heard of the time, and when it will if nothing else happens.
        self._told_s = -RESTING_S
        self._period_s = TIMER_S
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # A source waits in its thread, so each stream needs its own.
        self._pool = ThreadPoolExecutor(max(1, len(stack.site.streams)), thread_name_prefix="source")
        # One at a time: what is measured is large, and the engine wants its processor.
        self._measuring = ThreadPoolExecutor(1, thread_name_prefix="measure")
        self._statistics: dict[str, asyncio.Future[ReportStatistics]] = {}
        self._requests = 0
        #: By query of another home: who waits until it is dropped here.
        self._drops: dict[str, list[asyncio.Future[None]]] = {}
        #: By query: who asked for another plan, in that order, and what it is expected to cost.
        self._replans: dict[str, deque[tuple[Forecast, asyncio.Future[ReportSwitch]]]] = {}
        #: The last switch of which something was reported; they rise.
        self._last_switch = 0
        #: Why no source is read: the disk is full. Sources wait until it is not.
        self.disk_trouble = ""
        self._room = asyncio.Event()
        self._room.set()
        #: What keeps things over a crash, if anything does.
        self._keeper: StorageThread | None = None
        self._barrier = Barrier(self._perform, None, self._noted)

    def connect(
        self,
        transport: Transport,
        engine: EngineThread,
        storage: StorageThread | MemoryStorage,
        sources: Mapping[str, Source],
    ) -> None:
        """Give it hands; done after construction because hands report back to it."""
        self._transport = transport
        self._engine = engine
        self._storage = storage
        self._sources = sources
        if isinstance(storage, StorageThread):
            self._keeper = storage
            self._barrier = Barrier(self._perform, storage.put, self._noted)

    def put(self, inputs: Sequence[Input]) -> None:
        """Something happened; from the event loop's thread."""
        if not inputs:
            return
        self._inputs += inputs
        if self._timer is not None and not self._turning:
            self._turning = True
            self._loop.call_soon(self._turn)

    def put_from_thread(self, inputs: Sequence[Input]) -> None:
        """Something happened; from any thread."""
        self._loop.call_soon_threadsafe(self.put, inputs)

    def records_written_from_thread(self, count: int) -> None:
        """So many WriteRecords more are durable."""
        self._loop.call_soon_threadsafe(self._records_written, count)

    def disk_from_thread(self, trouble: str) -> None:
        """The disk is full, or, without text, is so no more."""
        self._loop.call_soon_threadsafe(self._disk, trouble)

    def failed_from_thread(self, error: Exception) -> None:
        """Going on could be wrong: the daemon ends."""
        self._loop.call_soon_threadsafe(self._end, error)

    def _records_written(self, count: int) -> None:
        try:
            self._barrier.written(count)
            self._store()
        except Exception as error:
            self._end(error)

    def _disk(self, trouble: str) -> None:
        self.disk_trouble = trouble
        if trouble:
            self._room.clear()
        else:
            self._room.set()

    def _end(self, error: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    async def statistics(
        self, query: JoinQuery, running: str = "", *, counts_only: bool = False, past_us: int = 0
    ) -> ReportStatistics:
        """What the sites know of a query's streams and of their links.

        Of one that is ``running``, by its id, what they counted too, or that alone; and ``past_us`` is how far they
        look back.
        """
        self._requests += 1
        request_id = f"{self.stack.site.name}?{self._requests}"
        answer: asyncio.Future[ReportStatistics] = self._loop.create_future()
        self._statistics[request_id] = answer
        self.put([StatisticsRequested(request_id, query, running, counts_only, past_us)])
        return await answer

    async def replan(
        self, query_id: str, plan: Plan, why: str, forecast: Forecast = NO_FORECAST, *, at_once: bool = False
    ) -> ReportSwitch:
        """Have a query of this site go on with another plan: PREPARING, or GIVEN_UP and why. ``at_once``: see there.

        How it goes on from there is in the query's history of switches.
        """
        answer: asyncio.Future[ReportSwitch] = self._loop.create_future()
        self._replans.setdefault(query_id, deque()).append((forecast, answer))
        self.put([ReplanRequested(query_id, plan, why, at_once)])
        return await answer

    async def drop_here(self, query_id: str) -> None:
        """Drop a query of another home at this site, for good."""
        dropped: asyncio.Future[None] = self._loop.create_future()
        self._drops.setdefault(query_id, []).append(dropped)
        self.put([DropRequested(query_id)])
        await dropped

    async def run(self) -> None:
        """Until cancelled. A bug in the core ends it, and with it the daemon: going on could be wrong."""
        self._timer = self._loop.call_later(0, self._time_passed)
        try:
            await self._over
        finally:
            self._timer.cancel()
            self._timer = None
            for task in list(self._tasks):
                task.cancel()

    def close(self) -> None:
        """Let go of the threads, without waiting for what they are at: a source that is closed lets go of its own."""
        for pool in (self._pool, self._measuring):
            pool.shutdown(wait=False, cancel_futures=True)

    def _time_passed(self) -> None:
        """Nothing told the stack of the time for as long as it may be: a turn does."""
        now_s, self._period_s = self._loop.time(), RESTING_S if self.stack.resting else TIMER_S
        # A loop's timers may come a little early.
        if now_s - self._told_s >= 0.99 * self._period_s:
            self._told_s = now_s
            self.put([TimePassed()])
        self._timer = self._loop.call_at(self._told_s + self._period_s, self._time_passed)

    def _turn(self) -> None:
        self._turning = False
        if self._timer is None or self._over.done():
            return
        try:
            self._take_turn()
        except Exception as error:
            self._end(error)

    def _take_turn(self) -> None:
        inputs, self._inputs = self._inputs, []
        now_s = self._loop.time()
        if now_s - self._told_s >= TIMER_S / 2:
            # What is due is looked for in a turn that comes anyway, so that none comes for it alone.
            self._told_s = now_s
            inputs.append(TimePassed())
        began = time.thread_time()
        outputs = self.stack.handle(inputs, self.clock.now_us())
        self.core_seconds += time.thread_time() - began
        self._barrier.put(outputs)
        for item in inputs:
            if isinstance(item, ConnectionClosed):
                self._barrier.closed(item.connection)
        self._store()
        if self._period_s > TIMER_S and self._timer is not None and not self.stack.resting:
            self._timer.cancel()
            self._time_passed()

    def _perform(self, output: Output) -> None:  # noqa: C901, PLR0912 - a flat table reads best
        match output:
            case SendFrame():
                self._transport.send(output)
            case CloseConnection():
                self._transport.close(output)
            case RememberLife():
                assert self._keeper is not None, "who keeps nothing remembers no lives"
                self._keeper.put(output)
            case RunOp():
                self._engine.put(output)
            case AppendBatch() | ReadLog() | OpenLog() | RemoveLog() | TrimLog():
                self._storage.put(output)
            case ReadSource():
                self._spawn(self._read(output))
            case MeasureStream():
                self._spawn(self._measure(output))
            case ReportStatistics():
                answer = self._statistics.pop(output.request_id)
                if not answer.done():
                    answer.set_result(output)
            case StoreRows():
                self._stores.append(output)
            case SetAside():
                self._set_aside(output)
            case ReportQuery():
                reason = f": {output.reason}" if output.reason else ""
                log.info("query %s is %s%s", output.query_id, output.state, reason)
                self._store()
                if output.state.ended:
                    self._queries.end_switch(output.query_id, f"the query {output.state}", self.clock.now_us() // 1000)
                self._queries.report(output.query_id, output.state, output.reason)
            case ReportSwitch():
                self._report_switch(output)
            case ReportDropped():
                log.info("query %s is dropped here", output.query_id)
                for dropped in self._drops.pop(output.query_id, ()):
                    if not dropped.done():
                        dropped.set_result(None)
            case NoteIgnored():
                self.ignored[output.reason] += 1
                log.debug("ignored (%s) %s", output.reason, output.detail)
            case BlamePeer():
                log.error("site %s broke the protocol: %s", output.peer, output.reason)
            case Send() | AskReceipt() | KeepRecord() | RemoveRecord() | WriteRecords():
                raise AssertionError("the stack turns messages and records into bytes, the barrier keeps records")
            case _:
                assert_never(output)

    def _report_switch(self, report: ReportSwitch) -> None:
        reason = f": {report.reason}" if report.reason else ""
        log.info("query %s: another plan (%s) is %s%s", report.query_id, report.why, report.state, reason)
        forecast, answer = NO_FORECAST, None
        if report.number > self._last_switch:
            # The first that is said of one is in the order in which they were asked for.
            self._last_switch = report.number
            asked = self._replans[report.query_id]
            forecast, answer = asked.popleft()
            if not asked:
                del self._replans[report.query_id]
        self._queries.report_switch(report, forecast, self.clock.now_us() // 1000)
        if answer is not None and not answer.done():
            answer.set_result(report)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """What a source is not meant to raise is a bug: a stream that stands still would never be noticed."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(error)

    async def _read(self, effect: ReadSource) -> None:
        source = self._sources[effect.stream]
        await self._room.wait()
        self.put([await self._loop.run_in_executor(self._pool, source.read, effect.origin_ms)])

    async def _measure(self, effect: MeasureStream) -> None:
        source = self._sources[effect.query.ref(effect.alias).stream.name]
        tau_ms = self.stack.tau_ms
        self.put([await self._loop.run_in_executor(self._measuring, measure, effect, source, tau_ms)])

    def _store(self) -> None:
        if self._stores:
            effects, self._stores = self._stores, []
            self._queries.store(effects, self.clock.now_us, self.put)

    @property
    def aside_files(self) -> Mapping[str, Path]:
        """By stream, where its tuples are that are in no batch."""
        return self._late.paths

    def _noted(self, records: WriteRecords) -> None:
        """What is done for good need not be kept with the rows."""
        for query_id, done in done_in(records.changes):
            self._queries.done(query_id, done)

    def _set_aside(self, effect: SetAside) -> None:
        if self._keeper is not None:
            # It writes what is set aside before the batch that was sealed with it.
            self._keeper.put(effect)
            return

        def written(error: Exception | None) -> None:
            if error is not None:
                # Going on would lose tuples without a trace.
                reason = f"{effect.rows.num_rows} {effect.reason} tuples cannot be written to late_dir: {error}"
                self.put([SourceFailed(effect.stream, reason)])

        self._files.put(lambda: self._late.write(effect.stream, effect.rows, effect.reason), written)
