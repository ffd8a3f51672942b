"""The composition root: from a configuration to a running daemon."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import grpc

from node.config import SPARK, ClusterConfig, SiteConfig
from node.core.engine import SiteEngine
from node.core.limits import Limits
from node.engine.native import NativeEngine
from node.io.clock import Clock
from node.io.control import Control
from node.io.engine_thread import EngineThread
from node.io.late import LateFiles
from node.io.plan_desk import PlanDesk
from node.io.queries import Queries
from node.io.replay import Replay
from node.io.runner import Runner
from node.io.transport import CONNECT_METHOD, SERVER_OPTIONS, Transport
from node.stack import Stack
from planner.errors import NarrowsError
from spark_jobs.engine import SparkEngine
from spark_jobs.process import SparkProcess, SparkSettings

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
    replays = {stream.name: Replay(stream, config.tau_ms, speed) for stream in here.streams}
    peers = {other.name: other.address for other in config.sites if other.name != site}
    streams = [replay.local for replay in replays.values()]
    stack = Stack(config.name, site, peers, config.tau_ms, secrets.randbits(63) | 1, streams, Limits())
    queries = Queries(site, folder)
    late = LateFiles(config.late_dir)
    stopping = asyncio.Event()

    runner = Runner(stack, Clock(), queries, late)
    transport = Transport(site, peers, runner.put)
    spark = await _start_spark(here, folder)
    engine = _engine(here, spark, folder)
    engine_thread = EngineThread(engine, runner.put_from_thread)
    runner.connect(transport, engine_thread, replays)
    desk = PlanDesk(runner, config)
    control = Control(runner, transport, engine_thread, engine, queries, desk, stopping.set)

    server = _server(transport, control)
    _listen(server, site, here.listen)
    await server.start()
    engine_thread.start()
    transport.start()
    log.info("site %s listens on %s", site, here.listen)
    _stop_on_signals(stopping, with_parent)

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
        engine_thread.stop()
        if spark is not None:
            spark.stop()
        late.close()
        queries.close()
        for replay in replays.values():
            replay.close()


async def _start_spark(here: SiteConfig, folder: Path) -> SparkProcess | None:
    """The site's Spark, if it needs one. Nothing is listened to before: a query would begin late."""
    if here.engine != SPARK:
        return None
    process = SparkProcess(SparkSettings(here.name, here.spark.master, here.spark.options), folder)
    await asyncio.get_running_loop().run_in_executor(None, process.start)
    return process


def _engine(here: SiteConfig, spark: SparkProcess | None, folder: Path) -> SiteEngine:
    if here.engine != SPARK:
        return NativeEngine()
    assert spark is not None
    host = None if spark.settings.is_local else dict(here.spark.options).get("spark.driver.host", "127.0.0.1")
    return SparkEngine(spark, folder, host, here.spark.partitions or spark.parallelism)


def _server(transport: Transport, control: Control) -> grpc.aio.Server:
    server = grpc.aio.server(options=SERVER_OPTIONS)
    service, method = CONNECT_METHOD.strip("/").split("/")
    connect: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(transport.answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: connect}), control.handlers())
    )
    return server


def _listen(server: grpc.aio.Server, site: str, address: str) -> None:
    try:
        bound = server.add_insecure_port(address)
    except RuntimeError:
        bound = 0
    if not bound:
        raise DaemonError(
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
