"""The composition root: from a configuration to a running daemon."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from node.config import SPARK, ClusterConfig, SiteConfig, StreamConfig
from node.core.engine import SiteEngine
from node.core.events import SiteStarted
from node.core.limits import Limits
from node.core.links.lives import next_life
from node.core.queries.plan_message import plan_of
from node.core.queries.query_id import keeping_of
from node.core.query_records import RecordKind, Recovered
from node.core.streams.log_extent import LogExtent
from node.core.streams.position import Position, SourcePlace
from node.core.streams.stream import LocalStream
from node.engine.native import NativeEngine
from node.instance import INSTANCE_VARIABLE
from node.io.backup import restored_to
from node.io.clock import Clock
from node.io.control import Control
from node.io.forced_exit import ForcedExit
from node.io.kept_logs import open_kept_logs
from node.io.planning.adaptation import Adaptation
from node.io.planning.plan_desk import PlanDesk
from node.io.readiness import Readiness
from node.io.reports.engine_report import EngineReport
from node.io.results.issued_queries import Queries
from node.io.results.leavings import leavings
from node.io.runner import Runner
from node.io.server import Server
from node.io.sources.definition import check_definition
from node.io.sources.late_files import LateFiles
from node.io.sources.replay import Replay
from node.io.sources.source import Source
from node.io.spark_site import SparkMaker, SparkSite
from node.io.temporary_folder import TemporaryFolder
from node.io.threads.engine_thread import EngineThread
from node.io.threads.file_thread import FileThread
from node.io.threads.memory_storage import MemoryStorage
from node.io.threads.shared_headroom import SharedHeadroom
from node.io.threads.shared_records import SharedRecords
from node.io.threads.storage_thread import RETRY_S, StorageThread
from node.io.transport import Transport
from node.stack import Stack
from node.storage.errors import NoRoomError
from node.storage.folder import ANY_ROOM, Room
from node.storage.site_folder import RESULTS_NAME, SiteFolder, open_folder
from node.wire.records import recovered
from planner.model.errors import NarrowsError

log = logging.getLogger(__name__)

STOP_GRACE_S = 0.5
#: After this a daemon that is told to stop ends, whatever it waits for. More than a Spark that hangs is given.
STOP_MAX_S = 20.0

T = TypeVar("T")


class DaemonError(NarrowsError):
    """The daemon cannot start, or had to stop."""


class _StoppedError(Exception):
    """The daemon was told to stop before it was up."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What is asked of one daemon beyond what the configuration says of its site."""

    #: Replay at this multiple of the time in the files; None: as fast as it goes.
    speed: float | None = None
    #: Also stop when standard input closes.
    with_parent: bool = False
    #: Keep the log of the streams on disk; without, in memory, as long as somebody needs it.
    logged: bool = True
    #: Forget what an earlier life of the site has left.
    fresh: bool = False
    #: Go on without what of the logs is damaged.
    accept_loss: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What whoever starts a daemon knows and the daemon does not."""

    #: Where the other sites are dialled, by name.
    peers: Mapping[str, str]
    #: Makes the site's Spark, if it needs one.
    spark: SparkMaker


def serve(config: ClusterConfig, site: str, options: ServeOptions, around: Surroundings) -> None:
    """Run the daemon of ``site`` until it is told to stop; raises NarrowsError if it cannot start."""
    if not __debug__:
        raise DaemonError("narrows node requires assertions; got python -O, which removes them")
    scratch = TemporaryFolder(f"narrows-{site}-")
    overdue = ForcedExit(scratch.remove, STOP_MAX_S)
    try:
        asyncio.run(_serve(config, site, options, around, scratch, overdue))
    except _StoppedError:
        log.info("site %s was stopped before it was up", site)
    finally:
        overdue.done()
        scratch.remove()


async def _serve(
    config: ClusterConfig,
    site: str,
    options: ServeOptions,
    around: Surroundings,
    scratch: TemporaryFolder,
    overdue: ForcedExit,
) -> None:
    stopping = asyncio.Event()
    _stop_on_signals(stopping, options.with_parent)
    server = Server(Readiness(site, os.environ.get(INSTANCE_VARIABLE, "")))
    async with AsyncExitStack() as closing:
        closing.push_async_callback(server.stop, STOP_GRACE_S)
        # Before anything slow is started, so that everybody can ask how far it is, and a port that is taken is noticed.
        await _listen(server, site, config.site(site).listen)
        try:
            await _live(config, site, options, around, scratch, stopping, server, closing)
        finally:
            overdue.begin()


async def _live(
    config: ClusterConfig,
    site: str,
    options: ServeOptions,
    around: Surroundings,
    scratch: TemporaryFolder,
    stopping: asyncio.Event,
    server: Server,
    closing: AsyncExitStack,
) -> None:
    """Until it is told to stop. Whatever is opened is left to ``closing``, which closes the last first."""
    here = config.site(site)
    # Before Spark, which writes beside the logs.
    kept = await _kept(config, here, options, server, stopping, closing) if options.logged else None
    records = None if kept is None else SharedRecords(kept.records)
    sources = _recordings(config, here, options.speed, kept, records, closing)
    spark = around.spark(here, scratch.folder) if here.needs_spark else None
    if spark is not None:
        closing.callback(spark.stop)
        server.readiness.step(f"starting Spark, master {here.spark.master}")
        await _unless_stopped(stopping, spark, spark.start)
        server.readiness.step("Spark is up, preparing its streams and workers")
        # Closed before Spark is stopped: a source that waits for it would start it again.
        for name, live in (await _open_spark_streams(config, here, spark, options.speed, kept, stopping)).items():
            sources[name] = live
            closing.callback(live.close)
    # Without a disk logs are in memory, and only have what somebody needs.
    limits = Limits(log_bytes_max=config.log_quota_bytes) if options.logged else Limits(log_bytes_max=sys.maxsize)
    peers = dict(around.peers)
    late = LateFiles(config.late_dir, _room(kept))
    closing.callback(late.close)
    streams = [
        await asyncio.to_thread(_local, stream, sources[stream.name], config.tau_ms, kept, late)
        for stream in here.streams
    ]
    life = next_life(None, int(time.time())) if records is None else records.life
    files = FileThread(asyncio.get_running_loop())
    files.start()
    closing.callback(_stop_writer, files.stop, kept)
    queries = await _queries(config, site, options, life, scratch, files, limits, server, _room(kept))
    closing.callback(queries.close)
    stack = _stack(config, site, peers, life, streams, limits, records, queries, kept.kept_logs if kept else {})

    runner = Runner(stack, Clock(), queries, late, files)
    closing.callback(runner.close)
    transport = Transport(site, peers, runner.put)
    engine = await _engine(here, spark, stopping)
    engine_thread = EngineThread(engine, runner.put_from_thread)
    closing.callback(engine_thread.stop)
    storage = _storage(kept, records, here, runner, late, sources)
    closing.callback(_stop_writer, storage.stop, kept)
    runner.connect(transport, engine_thread, storage, sources)
    desk = PlanDesk(runner, config)
    closing.callback(desk.close)
    report = EngineReport if spark is None else lambda: spark.report(engine)
    adaptation = Adaptation(runner, desk, queries, config)
    control = Control(runner, transport, engine_thread, engine, queries, desk, stopping.set, report)
    control.start()

    engine_thread.start()
    storage.start()
    server.open(control, transport)
    # Nobody is served any more once something of the above is closed.
    closing.push_async_callback(server.stop, STOP_GRACE_S)
    transport.start()
    closing.push_async_callback(transport.stop)
    closing.push_async_callback(control.leave)
    runner.put([SiteStarted()])
    log.info("site %s is ready at %s", site, here.listen)
    await _run_until(stopping, runner, control, adaptation)


async def _queries(
    config: ClusterConfig,
    site: str,
    options: ServeOptions,
    life: int,
    scratch: TemporaryFolder,
    files: FileThread,
    limits: Limits,
    server: Server,
    room: Room,
) -> Queries:
    """The queries of this home with their rows: those of earlier lives too, if anything is kept."""
    results = config.state_dir / site / RESULTS_NAME if options.logged else scratch.folder
    quota = config.results_quota_bytes
    kept = {"durable": options.logged, "accept_loss": options.accept_loss}
    queries = Queries(site, results, files, limits, life, quota_bytes=quota, room=room, **kept)
    if options.logged and results.exists():
        server.readiness.step("looking at the rows of earlier queries")
    await asyncio.to_thread(queries.recover)
    queries.take_over()
    return queries


async def _run_until(stopping: asyncio.Event, runner: Runner, control: Control, adaptation: Adaptation) -> None:
    """Until it is told to stop; raises what ended the runner, if something did."""
    running = asyncio.create_task(runner.run())
    sampling = asyncio.create_task(_sample(control))
    adapting = asyncio.create_task(adaptation.run())
    waiting = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (sampling, adapting, waiting, running):
            task.cancel()
        await asyncio.gather(sampling, adapting, waiting, running, return_exceptions=True)


async def _kept(
    config: ClusterConfig,
    here: SiteConfig,
    options: ServeOptions,
    server: Server,
    stopping: asyncio.Event,
    closing: AsyncExitStack,
) -> SiteFolder:
    """The site's folder, which no other daemon has, and in it the next life of the site."""
    path, streams = config.state_dir / here.name, [stream.name for stream in here.streams]
    wait = _wait_for_room(here.name, server.readiness, stopping)

    def opened() -> SiteFolder:
        clock_s = int(time.time())
        asked: dict[str, Any] = {"fresh": options.fresh, "accept_loss": options.accept_loss, "results": leavings}
        asked |= {"step": server.readiness.step, "make_headroom": partial(SharedHeadroom, wait=wait)}
        found = open_folder(path, config.name, here.name, streams, clock_s, **asked)
        found.kept_logs = open_kept_logs(found)
        return found

    # A log may be long, and whoever asks is told that it is being read.
    kept = await asyncio.to_thread(opened)
    closing.callback(kept.close)
    log.info("site %s begins life %d in %s", here.name, kept.records.life, path)
    return kept


def _room(kept: SiteFolder | None) -> Room:
    return ANY_ROOM if kept is None else kept.headroom


def _wait_for_room(site: str, readiness: Readiness, stopping: asyncio.Event) -> Callable[[NoRoomError], None]:
    """What a daemon does in a thread, for a second, that finds a disk so full that it cannot begin: it says so, once.

    Raises _StoppedError if it is told to stop.
    """
    loop = asyncio.get_running_loop()
    waits: list[NoRoomError] = []

    def wait(error: NoRoomError) -> None:
        if not waits:
            log.error("the disk is full: site %s waits for room to begin: %s", site, error)
            readiness.step(f"waiting for room, the disk is full: {error}")
            waits.append(error)
        if asyncio.run_coroutine_threadsafe(_is_set_within(stopping, RETRY_S), loop).result():
            raise _StoppedError

    return wait


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


def _recordings(
    config: ClusterConfig,
    here: SiteConfig,
    speed: float | None,
    kept: SiteFolder | None,
    records: SharedRecords | None,
    closing: AsyncExitStack,
) -> dict[str, Source]:
    """The site's streams that are replayed from files."""
    sources: dict[str, Source] = {}
    for stream in here.streams:
        if stream.spark is None:
            logged = None if kept is None else kept.extents.get(stream.name)
            sources[stream.name] = replay = Replay(stream, config.tau_ms, speed, records, logged)
            closing.callback(replay.close)
    return sources


def _local(config: StreamConfig, source: Source, tau_ms: int, kept: SiteFolder | None, late: LateFiles) -> LocalStream:
    """A stream as the core begins with it: after what its log has. Raises SourceError if that is of another stream."""
    local = source.local
    if kept is None:
        return local
    logged = kept.extents.get(config.name)
    begun = kept.headroom.lend_or_wait(lambda: check_definition(config, local.info, tau_ms, kept.records, logged))
    late.begin(config.name, begun)
    read_to = Position(0, 0) if logged is None or logged.place is None else logged.place.read_to
    aside = late.aside_after(config.name, read_to)
    restored = restored_to(kept.records, config.name)
    return replace(local, logged=logged, aside=aside, keep_whole=config.keep_whole, restored_to=restored)


def _stack(
    config: ClusterConfig,
    site: str,
    peers: Mapping[str, str],
    life: int,
    streams: Sequence[LocalStream],
    limits: Limits,
    records: SharedRecords | None,
    queries: Queries,
    kept_logs: Mapping[str, LogExtent] | None = None,
) -> Stack:
    """Without a folder nobody and nothing of earlier lives is remembered."""
    if records is None:
        return Stack(config.name, site, peers, config.tau_ms, life, streams, limits)
    found = replace(_earlier_queries(records, queries), kept_logs=kept_logs or {})
    folder = records.folder, records.lives
    return Stack(config.name, site, peers, config.tau_ms, life, streams, limits, records.met, found, *folder)


def _earlier_queries(records: SharedRecords, queries: Queries) -> Recovered:
    """The queries of earlier lives, by what is there of them: the record of a home, and rows.

    - Both, the rows whole and without an end: it goes on.
    - Other rows: nothing is added to them, and the query ends now if it had not.
    - A record without rows is to be forgotten, unless it is of a join that is kept: that has a log.
    """
    kept: dict[str, dict[str, bytes]] = {kind: records.all(kind) for kind in RecordKind}
    homes = {query_id: home for query_id, home in kept[RecordKind.HOME].items() if query_id in queries.by_id}
    going_on = [query_id for query_id in homes if queries.can_go_on(query_id)]
    homes |= {query_id: home for query_id, home in kept[RecordKind.HOME].items() if keeping_of(query_id)}
    broken = {
        query_id: query.spool.damage or query.reason
        for query_id, query in queries.by_id.items()
        if query.ending or query_id not in going_on
    }
    stored = {query_id: queries.stored_spans(query_id) for query_id in going_on}
    leftovers = tuple(query_id for query_id in kept[RecordKind.HOME] | kept[RecordKind.DONE] if query_id not in homes)
    found = replace(recovered({**kept, RecordKind.HOME: homes}, stored), broken=broken, leftovers=leftovers)
    # One that had not begun is still being prepared, and may be refused.
    begun = [home.query_id for home in found.homes if home.first_tick is not None]
    queries.end_unfinished("the daemon was restarted before the query was promised", going_on, begun)
    for home in found.homes:
        if home.query_id in going_on and not home.state.ended:
            queries.go_on(home.query_id, plan_of(home.prepare), time.time_ns() // 1_000_000)
    return found


def _storage(
    kept: SiteFolder | None,
    records: SharedRecords | None,
    here: SiteConfig,
    runner: Runner,
    late: LateFiles,
    sources: Mapping[str, Source],
) -> StorageThread | MemoryStorage:
    if kept is None or records is None:
        return MemoryStorage([stream.name for stream in here.streams], runner.put_from_thread)

    def logged(stream: str, place: SourcePlace) -> None:
        sources[stream].logged(place.resume)

    return StorageThread(kept.logs, records, late, kept.headroom, runner, logged)


def _stop_writer(stop: Callable[[], bool], kept: SiteFolder | None) -> None:
    if kept is None:
        stop()
    else:
        kept.stop_writer(stop)


async def _unless_stopped(stopping: asyncio.Event, spark: SparkSite, work: Callable[[], T]) -> T:
    """Something that Spark takes its time for.

    Raises _StoppedError if the daemon is told to stop meanwhile; Spark is stopped then, which ends the work.
    """
    # A thread of its own: one of the common ones would be waited for at the end, however long Spark takes.
    own = ThreadPoolExecutor(1, thread_name_prefix="start")
    working = asyncio.get_running_loop().run_in_executor(own, work)
    own.shutdown(wait=False)
    waiting = asyncio.create_task(stopping.wait())
    either: set[asyncio.Future[Any]] = {working, waiting}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if working.done() and not stopping.is_set():
        return working.result()
    spark.stop()
    with suppress(NarrowsError):
        await working
    raise _StoppedError


async def _open_spark_streams(
    config: ClusterConfig,
    here: SiteConfig,
    spark: SparkSite,
    speed: float | None,
    kept: SiteFolder | None,
    stopping: asyncio.Event,
) -> Mapping[str, Source]:
    """The site's streams that Spark reads. They come as fast as they are: a speed is for recordings."""
    streams = [stream for stream in here.streams if stream.spark is not None]
    if not streams:
        return {}
    if speed is not None:
        names = ", ".join(stream.name for stream in streams)
        log.info("site %s: --speed is for files that are replayed; Spark reads %s as it comes", here.name, names)
    places = None
    if kept is not None:
        places = {name: logged.place.resume for name, logged in kept.extents.items() if logged.place is not None}
    return await _unless_stopped(stopping, spark, lambda: spark.open_streams(streams, config.tau_ms, places))


async def _engine(here: SiteConfig, spark: SparkSite | None, stopping: asyncio.Event) -> SiteEngine:
    if here.engine != SPARK:
        return NativeEngine()
    assert spark is not None
    return await _unless_stopped(stopping, spark, spark.open_engine)


async def _listen(server: Server, site: str, address: str) -> None:
    if not await server.listen(address):
        raise DaemonError(
            f"site.{site}.listen requires an address of this machine that is free; {address} is in use or not ours "
            "(does the daemon of this site run already?)"
        )


def _stop_on_signals(stopping: asyncio.Event, with_parent: bool) -> None:
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # the terminal is closed, and nohup was not asked for
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stopping.set)
    if with_parent:
        parent = sys.stdin.fileno()

        def parent_is_gone() -> None:
            loop.remove_reader(parent)
            stopping.set()

        loop.add_reader(parent, parent_is_gone)


async def _sample(control: Control) -> None:
    with suppress(asyncio.CancelledError):
        while True:
            control.sample()
            await asyncio.sleep(1)
