"""The composition root: from a configuration to a running daemon."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc

from netsim.network import dialled, found
from node.config import SPARK, ClusterConfig, SiteConfig
from node.core.engine import SiteEngine
from node.core.limits import Limits
from node.engine.native import NativeEngine
from node.io.clock import Clock
from node.io.control import Control
from node.io.engine_report import EngineReport
from node.io.engine_thread import EngineThread
from node.io.file_thread import FileThread
from node.io.late import LateFiles
from node.io.memory_storage import MemoryStorage
from node.io.overdue import Overdue
from node.io.plan_desk import PlanDesk
from node.io.queries import Queries
from node.io.replay import Replay
from node.io.runner import Runner
from node.io.source import Source
from node.io.storage_thread import StorageThread
from node.io.transport import CONNECT_METHOD, SERVER_OPTIONS, Transport
from node.stack import Stack
from node.storage.lock import SiteLock
from node.storage.site_logs import begin_logs
from node.storage.stream_logs import StreamLogs
from planner.errors import NarrowsError
from spark_jobs.engine import SparkEngine
from spark_jobs.measured import MeasuredSpark
from spark_jobs.process import SparkSettings
from spark_jobs.source import SparkStream, open_streams

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


def serve(config: ClusterConfig, site: str, options: ServeOptions) -> None:
    """Run the daemon of ``site`` until it is told to stop; raises NarrowsError if it cannot start."""
    if not __debug__:
        raise DaemonError("narrows node requires assertions; got python -O, which removes them")
    with tempfile.TemporaryDirectory(prefix=f"narrows-{site}-", ignore_cleanup_errors=True) as folder:
        overdue = Overdue(Path(folder), STOP_MAX_S)
        try:
            asyncio.run(_serve(config, site, options, Path(folder), overdue))
        except _StoppedError:
            log.info("site %s was stopped before it was up", site)
        finally:
            overdue.done()


async def _serve(config: ClusterConfig, site: str, options: ServeOptions, folder: Path, overdue: Overdue) -> None:
    stopping = asyncio.Event()
    _stop_on_signals(stopping, options.with_parent)
    _check_free(site, config.site(site).listen)
    async with AsyncExitStack() as closing:
        try:
            await _live(config, site, options, folder, stopping, closing)
        finally:
            overdue.begin()


async def _live(
    config: ClusterConfig,
    site: str,
    options: ServeOptions,
    folder: Path,
    stopping: asyncio.Event,
    closing: AsyncExitStack,
) -> None:
    """Until it is told to stop. Whatever is opened is left to ``closing``, which closes the last first."""
    here = config.site(site)
    logs = _logs(config, here, closing) if options.logged else None
    sources: dict[str, Source] = {}
    for stream in here.streams:
        if stream.spark is None:
            sources[stream.name] = replay = Replay(stream, config.tau_ms, options.speed)
            closing.callback(replay.close)
    spark = _spark(here, folder)
    if spark is not None:
        closing.callback(spark.stop)
        await _unless_stopped(stopping, spark, spark.start)
        # Closed before Spark is stopped: a source that waits for it would start it again.
        for name, live in (await _open_spark_streams(config, here, spark, options.speed, stopping)).items():
            sources[name] = live
            closing.callback(live.close)
    limits = Limits()
    peers = _peers(config, site)
    streams = [sources[stream.name].local for stream in here.streams]
    stack = Stack(config.name, site, peers, config.tau_ms, secrets.randbits(63) | 1, streams, limits)
    late = LateFiles(config.late_dir)
    closing.callback(late.close)
    files = FileThread(asyncio.get_running_loop())
    files.start()
    closing.callback(files.stop)
    queries = Queries(site, folder, files, limits)
    closing.callback(queries.close)

    runner = Runner(stack, Clock(), queries, late, files)
    closing.callback(runner.close)
    transport = Transport(site, peers, runner.put)
    engine = await _engine(here, spark, folder, stopping)
    engine_thread = EngineThread(engine, runner.put_from_thread)
    closing.callback(engine_thread.stop)
    storage = _storage(logs, here, runner)
    closing.callback(storage.stop)
    runner.connect(transport, engine_thread, storage, sources)
    desk = PlanDesk(runner, config)
    report = EngineReport if spark is None else lambda: spark.report(engine)
    control = Control(runner, transport, engine_thread, engine, queries, desk, stopping.set, report)

    server = _server(transport, control)
    closing.push_async_callback(server.stop, STOP_GRACE_S)
    _listen(server, site, here.listen)
    await server.start()
    engine_thread.start()
    storage.start()
    transport.start()
    closing.push_async_callback(transport.stop)
    log.info("site %s listens on %s", site, here.listen)
    await _run_until(stopping, runner, control)


async def _run_until(stopping: asyncio.Event, runner: Runner, control: Control) -> None:
    """Until it is told to stop; raises what ended the runner, if something did."""
    running = asyncio.create_task(runner.run())
    sampling = asyncio.create_task(_sample(control))
    waiting = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (sampling, waiting, running):
            task.cancel()
        await asyncio.gather(sampling, waiting, running, return_exceptions=True)


def _logs(config: ClusterConfig, here: SiteConfig, closing: AsyncExitStack) -> StreamLogs:
    """The logs of the site's streams, which no other daemon has; before Spark, which writes beside them."""
    home = config.state_dir / here.name
    lock = SiteLock(home)
    closing.callback(lock.release)
    return begin_logs(home, [stream.name for stream in here.streams])


def _storage(logs: StreamLogs | None, here: SiteConfig, runner: Runner) -> StorageThread | MemoryStorage:
    if logs is None:
        return MemoryStorage([stream.name for stream in here.streams], runner.put_from_thread)
    return StorageThread(logs, runner.put_from_thread)


def _spark(here: SiteConfig, folder: Path) -> MeasuredSpark | None:
    """The site's Spark, if it needs one."""
    if not here.needs_spark:
        return None
    spark = here.spark
    settings = SparkSettings(here.name, spark.master, spark.options, spark.job_timeout_ms / 1000)
    return MeasuredSpark(settings, folder)


async def _unless_stopped(stopping: asyncio.Event, spark: MeasuredSpark, work: Callable[[], T]) -> T:
    """Something that Spark takes its time for. We listen only then: a query would begin too early.

    Raises _StoppedError if the daemon is told to stop meanwhile; Spark is stopped then, which ends the work.
    """
    working = asyncio.get_running_loop().run_in_executor(None, work)
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
    config: ClusterConfig, here: SiteConfig, spark: MeasuredSpark, speed: float | None, stopping: asyncio.Event
) -> dict[str, SparkStream]:
    """The site's streams that Spark reads. They come as fast as they are: a speed is for recordings."""
    streams = [stream for stream in here.streams if stream.spark is not None]
    if not streams:
        return {}
    if speed is not None:
        names = ", ".join(stream.name for stream in streams)
        log.info("site %s: --speed is for files that are replayed; Spark reads %s as it comes", here.name, names)
    return await _unless_stopped(stopping, spark, lambda: open_streams(streams, config.tau_ms, spark))


async def _engine(here: SiteConfig, spark: MeasuredSpark | None, folder: Path, stopping: asyncio.Event) -> SiteEngine:
    if here.engine != SPARK:
        return NativeEngine()
    assert spark is not None
    host = None if spark.settings.is_local else dict(here.spark.options).get("spark.driver.host", "127.0.0.1")
    partitions = here.spark.partitions or spark.parallelism
    return await _unless_stopped(stopping, spark, lambda: SparkEngine(spark, folder, host, partitions))


def _peers(config: ClusterConfig, site: str) -> dict[str, str]:
    """Where the other sites are; behind the proxies of the emulated network, if there is one."""
    addresses = {other.name: other.address for other in config.sites}
    if config.wan is not None:
        return dialled(found(config.path), site, addresses)
    return {name: address for name, address in addresses.items() if name != site}


def _server(transport: Transport, control: Control) -> grpc.aio.Server:
    server = grpc.aio.server(options=SERVER_OPTIONS)
    service, method = CONNECT_METHOD.strip("/").split("/")
    connect: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(transport.answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: connect}), control.handlers())
    )
    return server


def _check_free(site: str, address: str) -> None:
    """Whether the port can be had, before anything slow is started; it is bound when there is somebody to answer."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), int(port)), family=family).close()
    except OSError:
        raise _in_use(site, address) from None


def _listen(server: grpc.aio.Server, site: str, address: str) -> None:
    try:
        bound = server.add_insecure_port(address)
    except RuntimeError:
        bound = 0
    if not bound:
        raise _in_use(site, address)


def _in_use(site: str, address: str) -> DaemonError:
    return DaemonError(
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
