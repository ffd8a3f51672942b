"""A daemon's control service on loopback with one query, whose rows a test stores by hand."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pyarrow as pa

from node.client import Client
from node.core.effects import QueryState, StoreRows
from node.core.streams.ticks import Span
from node.io.clock import Clock
from node.io.control import Control
from node.io.planning.outcome import Planned
from node.io.results.issued_queries import Queries
from node.io.threads.file_thread import FileThread
from node.io.transport import SERVER_OPTIONS
from node.rpc.control_pb2_grpc import add_ControlServicer_to_server
from tests.unit.sites import Cluster

PLAN = Cluster().plan("cam")
SCHEMA = PLAN.query.output_schema()
NAMES = tuple(SCHEMA.names)


class Site:
    """All of a daemon that gives rows by number."""

    def __init__(self, folder: Path, keep: bool, port: int = 0) -> None:
        """One that was closed goes on with the same folder, and at the same port if that is wanted."""
        self._wanted = port
        self.loop = asyncio.new_event_loop()
        self.events: list[Any] = []
        self.files = FileThread(self.loop)
        self.files.start()
        self.queries = Queries("cam", folder, self.files, durable=True)
        self.queries.recover()
        self.queries.take_over()
        known = [*self.queries.by_id.values()]
        self.query = known[0] if known else self.queries.new(Planned(PLAN), keep)
        runner = SimpleNamespace(
            put=self.events.extend,
            clock=Clock(),
            stack=SimpleNamespace(site=SimpleNamespace(name="cam", homes={}), links={}, tau_ms=100),
        )
        nothing = cast("Any", None)
        self._control = Control(cast("Any", runner), nothing, nothing, nothing, self.queries, nothing, lambda: None)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self.loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        self._ready.wait()
        self.address = f"127.0.0.1:{self._bound}"
        self.client = Client("cam", self.address)

    async def _serve(self) -> None:
        server = grpc.aio.server(options=SERVER_OPTIONS)
        add_ControlServicer_to_server(self._control, server)
        self._bound = server.add_insecure_port(f"127.0.0.1:{self._wanted}")
        self._ending = asyncio.Event()
        await self.queries.begin(self.query)
        await server.start()
        self._ready.set()
        await self._ending.wait()
        await self._control.leave()
        await server.stop(0.1)

    @property
    def port(self) -> int:
        return self._bound

    def close(self) -> None:
        """As a daemon that is stopped: what is durable stays."""
        self.client.close()
        self.do(self._ending.set)
        self._thread.join()
        self.queries.close()
        self.files.stop()
        self.loop.close()

    def do(self, what: Callable[[], object]) -> None:
        """On the daemon's loop, where everything happens."""

        async def call() -> None:
            what()

        asyncio.run_coroutine_threadsafe(call(), self.loop).result()

    def store(self, first: int, count: int) -> None:
        effect = StoreRows(self.query.query_id, "a", Span(first, first + count), 0, rows_of(first, count))
        stored = threading.Event()

        def deliver(events: Sequence[Any]) -> None:
            self.events.extend(events)
            stored.set()

        self.do(lambda: self.queries.store([effect], lambda: 0, deliver))
        stored.wait()

    def settle(self) -> None:
        """All file work that was asked for is done, and what follows from it."""
        for _ in range(2):
            done = threading.Event()
            self.do(lambda done=done: self.files.put(lambda: None, lambda _: done.set()))  # type: ignore[misc]
            done.wait()

    def end(self, state: QueryState, reason: str = "") -> None:
        self.do(lambda: self.queries.report(self.query.query_id, state, reason))
        while self.query.state is not state:
            time.sleep(0.005)

    def read(self, first: int, end: int, *columns: str) -> list[int]:
        found = self.client.rows(self.query.query_id, self.query.run, first, end, columns or NAMES)
        return [n for rows in found for n in rows.column(columns[0] if columns else NAMES[0]).to_pylist()]


def rows_of(first: int, count: int) -> pa.RecordBatch:
    """Row n has n in its first column, and 1000 more in each further one."""
    columns = [range(first + 1000 * place, first + 1000 * place + count) for place in range(len(SCHEMA))]
    arrays = [pa.array(column, pa.int64()).cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def wait_until(ask: Callable[[], bool]) -> None:
    """The test's own limit of time is the limit."""
    while not ask():
        time.sleep(0.01)
