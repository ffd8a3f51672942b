"""The composition root: from a configuration to a running daemon."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

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
from node.io.late import LateFiles
from node.io.plan_desk import PlanDesk
from node.io.queries import Queries
from node.io.replay import Replay
from node.io.runner import Runner
from node.io.source import Source
from node.io.transport import CONNECT_METHOD, SERVER_OPTIONS, Transport
from node.stack import Stack
from planner.errors import NarrowsError
from spark_jobs.engine import SparkEngine
from spark_jobs.measured import MeasuredSpark
from spark_jobs.process import SparkSettings
from spark_jobs.source import SparkStream, open_streams

log = logging.getLogger(__name__)

STOP_GRACE_S = 0.5


class DaemonError(NarrowsError):
    """The daemon cannot start, or had to stop."""


def serve(config: ClusterConfig, site: str, speed: float | None, with_parent: bool) -> None:
    """Run the daemon of ``site`` until it is told to stop.

    Raises NarrowsError if it cannot start. ``with_parent``: also stop when standard input closes.
    """
    if not __debug__:
        raise DaemonError("narrows node requires assertions; got python -O, which removes them")
    with tempfile.TemporaryDirectory(prefix=f"narrows-{site}-") as folder:
        asyncio.run(_serve(config, site, speed, with_parent, Path(folder)))


async def _serve(config: ClusterConfig, site: str, speed: float | None, with_parent: bool, folder: Path) -> None:
    here = config.site(site)
    stopping = asyncio.Event()
    _stop_on_signals(stopping, with_parent)
    _check_free(site, here.listen)
    replays = {stream.name: Replay(stream, config.tau_ms, speed) for stream in here.streams if stream.spark is None}
    spark = await _start_spark(here, folder, stopping)
    if stopping.is_set():
        if spark is not None:
            spark.stop()
        return
    sources: dict[str, Source] = {**replays, **await _open_spark_streams(config, here, spark, speed)}
    peers = _peers(config, site)
    streams = [sources[stream.name].local for stream in here.streams]
    stack = Stack(config.name, site, peers, config.tau_ms, secrets.randbits(63) | 1, streams, Limits())
    queries = Queries(site, folder)
    late = LateFiles(config.late_dir)

    runner = Runner(stack, Clock(), queries, late)
    transport = Transport(site, peers, runner.put)
    engine = _engine(here, spark, folder)
    engine_thread = EngineThread(engine, runner.put_from_thread)
    runner.connect(transport, engine_thread, sources)
    desk = PlanDesk(runner, config)
    report = EngineReport if spark is None else lambda: spark.report(engine)
    control = Control(runner, transport, engine_thread, engine, queries, desk, stopping.set, report)

    server = _server(transport, control)
    _listen(server, site, here.listen)
    await server.start()
    engine_thread.start()
    transport.start()
    log.info("site %s listens on %s", site, here.listen)

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
        await transport.stop()
        await server.stop(STOP_GRACE_S)
        # Before Spark: a source that waits for it would start it again.
        for source in sources.values():
            source.close()
        engine_thread.stop()
        if spark is not None:
            spark.stop()
        late.close()
        queries.close()


async def _start_spark(here: SiteConfig, folder: Path, stopping: asyncio.Event) -> MeasuredSpark | None:
    """The site's Spark, if it needs one and nobody stops us. We listen only then: a query would begin too early."""
    if not here.needs_spark:
        return None
    process = MeasuredSpark(SparkSettings(here.name, here.spark.master, here.spark.options), folder)
    starting = asyncio.get_running_loop().run_in_executor(None, process.start)
    waiting = asyncio.create_task(stopping.wait())
    either: set[asyncio.Future[Any]] = {starting, waiting}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if starting.done():
        starting.result()
        return process
    process.stop()
    with suppress(NarrowsError):
        await starting
    return None


async def _open_spark_streams(
    config: ClusterConfig, here: SiteConfig, spark: MeasuredSpark | None, speed: float | None
) -> dict[str, SparkStream]:
    """The site's streams that Spark reads. They come as fast as they are: a speed is for recordings."""
    streams = [stream for stream in here.streams if stream.spark is not None]
    if spark is None or not streams:
        return {}
    if speed is not None:
        names = ", ".join(stream.name for stream in streams)
        log.info("site %s: --speed is for files that are replayed; Spark reads %s as it comes", here.name, names)
    return await asyncio.get_running_loop().run_in_executor(None, open_streams, streams, config.tau_ms, spark)


def _engine(here: SiteConfig, spark: MeasuredSpark | None, folder: Path) -> SiteEngine:
    if here.engine != SPARK:
        return NativeEngine()
    assert spark is not None
    host = None if spark.settings.is_local else dict(here.spark.options).get("spark.driver.host", "127.0.0.1")
    return SparkEngine(spark, folder, host, here.spark.partitions or spark.parallelism)


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
        f"site.{site}.listen requires an address of this machine that is free; {address} is in use or not ours"
    )


def _stop_on_signals(stopping: asyncio.Event, with_parent: bool) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if with_parent:
        loop.add_reader(sys.stdin.fileno(), stopping.set)


async def _sample(control: Control) -> None:
    with suppress(asyncio.CancelledError):
        while True:
            control.sample()
            await asyncio.sleep(1)
