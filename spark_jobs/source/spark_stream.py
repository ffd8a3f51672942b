"""Streams that Spark reads, as the daemon sees them: files of micro-batches, handed over once, in order.

Spark runs ahead of the daemon by a few micro-batches (``reading``), the files in between are what
``state`` describes. When Spark dies, whoever notices first starts it again, and its queries go on from
their checkpoints; the rows that wait here are read meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from node.config import ConfigError, Problem, SparkSource, StreamConfig, Watermark, shown
from node.core.events import RowsArrived, SourceFailed
from node.core.planning.profile import Sample
from node.core.streams.position import Position
from node.core.streams.stream import LocalStream
from node.io.sources.readers import SourceError
from node.io.sources.recordings import ReplaySource, open_batch, stream_info
from node.io.sources.replay import READ_ROWS, sample_of_sources
from planner.model.declarations import DeclaredStream
from planner.model.errors import NarrowsError
from planner.model.query import StreamInfo
from spark_jobs.process import SparkDiedError, SparkError, SparkProcess
from spark_jobs.source.state import FolderLock, StateFolder

log = logging.getLogger(__name__)

#: While nothing comes: how often the files are looked at, how often Spark is asked, when the core is told so.
_LOOK_EVERY_S = 0.01
_ASK_EVERY_S = 0.1
_READ_S_MAX = 0.25
#: How long planning waits for a first micro-batch.
_PEEK_S_MAX = 2.0
#: How long a daemon that starts waits for the first micro-batch of bounded data: what is there can be planned by.
_FIRST_S_MAX = 60.0
#: A query that fails so often with no micro-batch in between fails for a reason that will not go away.
FAILURES_MAX = 3


class SparkStream:
    """A ``Source``: one stream that Spark reads."""

    def __init__(
        self,
        config: StreamConfig,
        info: StreamInfo,
        folder: StateFolder,
        lock: FolderLock,
        process: SparkProcess,
        definition: Mapping[str, Any],
        logged: bool,
        place: Position,
    ) -> None:
        """``info``: what Spark said of its columns; ``definition``: what it is told. Made by ``open_streams``.

        ``logged``: what is read may have to be read again, from what ``logged`` is told on; ``place``: what is first.
        """
        assert config.spark is not None
        self._config = config
        self._info = info
        self._folder = folder
        self._lock = lock
        self._process = process
        self._definition = definition
        self._told = False
        self._by_clock = config.spark.watermark is Watermark.CLOCK
        self._lateness = config.lateness_ms * info.unit
        self._is_logged = logged
        self._next = place
        self._batch: ReplaySource | None = None
        #: As ``reading`` says: micro-batch, and time in milliseconds.
        self._mark: tuple[int, int] | None = None
        self._asked_s = -_ASK_EVERY_S
        self._over = False
        self._failures = 0
        self._closed = threading.Event()
        if logged:
            folder.take(place)
        self._clear(place)

    @property
    def local(self) -> LocalStream:
        """The stream; with the time of its first tuple if a micro-batch waits, which a live one has not yet."""
        return LocalStream(self._info, self._config.lateness_ms, self._first_ts(), self._config.retain_ms)

    @property
    def declared(self) -> DeclaredStream:
        return self._config.stats

    def read(self, origin_ms: int | None) -> RowsArrived | SourceFailed:
        """The next rows of a micro-batch; after a quarter of a second none."""
        try:
            return self._read()
        except (NarrowsError, OSError, ValueError) as error:
            return SourceFailed(self._info.name, str(error))

    def _read(self) -> RowsArrived:
        deadline = time.monotonic() + _READ_S_MAX
        while not self._closed.is_set():
            if (found := self._chunk()) is not None:
                return found
            watermark = self._watermark()
            self._ask()
            if self._over and not self._arrived():
                return self._nothing(ended=True)
            if time.monotonic() >= deadline or self._watermark() != watermark:
                break
            self._closed.wait(_LOOK_EVERY_S)
        return self._nothing(ended=False)

    def _nothing(self, *, ended: bool) -> RowsArrived:
        schema = self._info.schema
        rows = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        return RowsArrived(self._info.name, rows, pa.array([], pa.int64()), self._watermark(), ended)

    def _arrived(self) -> bool:
        """Whether the next micro-batch is there."""
        here = self._folder.batch(self._next.part)
        if here.exists():
            return True
        beyond = self._unread()
        if beyond and not here.exists():  # asked again: it may have come while the others were listed
            raise SourceError(
                Problem(
                    str(self._folder.batches),
                    self._config.key,
                    f"micro-batch {self._next.part} before later ones",
                    f"{beyond[0]}: files were removed; {_anew(self._folder)}",
                )
            )
        return bool(beyond)

    def _unread(self) -> list[int]:
        """Micro-batches that are there and not read, or not wholly."""
        return [number for number in self._folder.waiting() if number >= self._next.part]

    def _chunk(self) -> RowsArrived | None:
        """The next rows that are there. Without a log they are handed over before they leave, and never again."""
        while self._batch is not None or self._arrived():
            if self._batch is None:
                self._batch = self._opened()
            chunk = self._batch.read(READ_ROWS)
            start, end = self._next, Position(self._next.part, self._next.row + chunk.rows.num_rows)
            if chunk.ended:
                self._batch.close()
                self._batch = None
                self._failures = 0
                end = Position(start.part + 1, 0)
            self._take(end)
            if chunk.rows.num_rows:
                mark, latest_ts = self._watermark(), self._latest_ts()
                return RowsArrived(self._info.name, chunk.rows, chunk.ts, mark, False, latest_ts, start, end)
        return None

    def _take(self, end: Position) -> None:
        self._next = end
        if self._is_logged:
            self._folder.take(end)
        else:
            self._folder.hand(end)
            self._clear(end)

    def logged(self, resume: Position) -> None:
        """The log has all before this, and says so itself after a crash; here it is noted, and files are removed."""
        try:
            self._folder.hand(resume)
            self._clear(resume)
        except OSError as error:
            log.warning(
                "stream %s: what is in its log cannot be removed from %s: %s", self.name, self._folder.path, error
            )

    def _opened(self) -> ReplaySource:
        source = open_batch(self._config, self._info, self._folder.batch(self._next.part))
        source.skip(self._next.row)
        return source

    def _watermark(self) -> int | None:
        """By the clock, if all is handed over that was in the source at the time of the mark."""
        if not self._by_clock or self._mark is None or self._mark[0] >= self._next.part:
            return None
        return self._mark[1] * self._info.unit - self._lateness

    def _latest_ts(self) -> int:
        """What is after it is too far ahead of the clock."""
        return (int(time.time() * 1000) + self._config.max_ahead_ms) * self._info.unit

    def _ask(self) -> None:
        """How Spark does. Starts it again if it died, and its query if that failed."""
        now = time.monotonic()
        if self._over or now - self._asked_s < _ASK_EVERY_S:
            return
        self._asked_s = now
        try:
            state = self._process.request("source_state", stream=self._info.name)
        except SparkDiedError as error:
            if not self._closed.is_set():
                log.warning("stream %s: %s; it is started again, and goes on from its checkpoint", self.name, error)
                self._process.restart()
            return
        if state["mark"] is not None:
            self._mark = (state["mark"][0], state["mark"][1])
        if state["failure"] is not None:
            self._try_again(state["failure"])
        self._over = not state["active"] and state["failure"] is None

    def _try_again(self, reason: str) -> None:
        self._failures += 1
        if self._failures > FAILURES_MAX:
            raise SparkError(f"Spark cannot read it, tried {FAILURES_MAX} times more: {reason}")
        log.warning("stream %s: its query in Spark failed, and is started again: %s", self.name, reason)
        if not self._closed.wait(self._failures):
            self.start()

    @property
    def name(self) -> str:
        return self._info.name

    def start(self) -> None:
        """Let Spark read it. Raises SourceError if it refuses, but only the first time.

        Later ``read`` finds that out: it must not keep Spark from being started again.
        """
        try:
            self._process.request("source_start", **self._definition)
        except SparkDiedError:
            raise
        except SparkError as error:
            if not self._told:
                raise SourceError(_problem(self._config, "spark", "a source that Spark can read", str(error))) from None
            log.warning("stream %s: %s", self.name, error)
        self._told = True

    def peek(self) -> Sample:
        """What has arrived and is not handed over; a first micro-batch is waited for a little.

        Raises SourceError if there is nothing.
        """
        spark = self._config.spark
        assert spark is not None
        deadline = time.monotonic() + _PEEK_S_MAX
        while True:
            with ExitStack() as stack:
                sources: list[ReplaySource] = []
                for number in self._unread():
                    try:
                        source = open_batch(self._config, self._info, self._folder.batch(number))
                    except SourceError:
                        continue  # it was handed over meanwhile; if it is broken, read says so
                    sources.append(stack.enter_context(source))
                if sources:
                    return sample_of_sources(sources, READ_ROWS if spark.available_now else None)
            if time.monotonic() >= deadline or self._closed.wait(_LOOK_EVERY_S):
                raise SourceError(_problem(self._config, "spark", "tuples to measure it by", "none yet from Spark"))

    def wait_until_known(self) -> None:
        """Of bounded data: until there is something to plan by. Raises NarrowsError if Spark cannot read it."""
        deadline = time.monotonic() + _FIRST_S_MAX
        while not self._arrived() and not self._over and time.monotonic() < deadline:
            self._ask()
            time.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        self._closed.set()
        self._lock.release()

    def _clear(self, handed: Position) -> None:
        """Remove what was handed over."""
        for number in self._folder.waiting():
            if number < handed.part:
                self._folder.batch(number).unlink()

    def _first_ts(self) -> int | None:
        waiting = self._unread()
        if not waiting:
            return None
        with open_batch(self._config, self._info, self._folder.batch(waiting[0])) as source:
            return source.first_ts


def open_streams(
    configs: Sequence[StreamConfig],
    tau_ms: int,
    process: SparkProcess,
    places: Mapping[str, Position] | None = None,
) -> dict[str, SparkStream]:
    """The streams that Spark reads. One ConfigError with all that is wrong with them; nothing is started then.

    ``places``: where those go on that have a log; None if none has.
    """
    opened: dict[str, SparkStream] = {}
    problems: list[Problem] = []
    for config in configs:
        try:
            opened[config.name] = _opened(config, tau_ms, process, places)
        except ConfigError as error:
            problems += error.problems
    try:
        if problems:
            raise ConfigError(*problems)
        for stream in opened.values():
            process.on_start(stream.start)
        for config in configs:
            if config.spark is not None and config.spark.available_now:
                opened[config.name].wait_until_known()
    except BaseException:
        for stream in opened.values():
            stream.close()
        raise
    return opened


def _opened(
    config: StreamConfig, tau_ms: int, process: SparkProcess, places: Mapping[str, Position] | None
) -> SparkStream:
    assert config.spark is not None
    source, folder = config.spark, StateFolder(config.spark.folder)
    lock = FolderLock(folder.path / "daemon.lock")
    try:
        if not lock.take():
            got = f"{folder.path}, which another daemon uses"
            raise SourceError(_problem(config, "spark", "a state_dir of its own", got))
        definition = _definition(config, source, tau_ms, process)
        info = stream_info(config, _columns(config, process.request("source_check", **definition)))
        place = folder.handed if places is None else places.get(config.name, folder.handed)
        _check_state(config, source, folder, place)
        folder.begin(source)
        return SparkStream(config, info, folder, lock, process, definition, places is not None, place)
    except BaseException:
        lock.release()
        raise


def _definition(config: StreamConfig, source: SparkSource, tau_ms: int, process: SparkProcess) -> dict[str, Any]:
    """As ``reading.Definition`` wants it."""
    every_ms = tau_ms if source.trigger_ms is None else source.trigger_ms
    return {
        "stream": config.name,
        "format": source.format,
        "options": dict(source.options),
        "schema": source.schema,
        "where": source.where,
        "select": list(source.select),
        "ts": config.ts,
        "trigger_ms": None if source.available_now else every_ms,
        "folder": str(source.folder),
        "local": process.settings.is_local,
    }


def _columns(config: StreamConfig, said: Mapping[str, Any]) -> pa.Schema:
    if "wrong" in said:
        required = {
            "spark.schema": "columns as DDL that Spark understands",
            "where": "a condition that Spark understands",
            "select": "expressions that Spark understands, of types that Arrow has",
        }.get(said["wrong"], "a source that Spark can read")
        raise SourceError(_problem(config, said["wrong"], required, said["why"]))
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(said["schema"])))
    names = [name.lower() for name in schema.names]
    if doubles := [name for name in schema.names if names.count(name.lower()) > 1]:
        got = ", ".join(shown(name) for name in doubles)
        raise SourceError(_problem(config, "select", "columns whose names differ not only in case", got))
    return schema


def _check_state(config: StreamConfig, source: SparkSource, folder: StateFolder, place: Position) -> None:
    """That what is kept of the stream belongs to this source."""
    if changed := folder.differences(source):
        required = f"the source that {folder.path} was begun with"
        got = f"another {', '.join(changed)}: put it back, or {_anew(folder)}"
        raise SourceError(_problem(config, "spark", required, got))
    if folder.lacks_checkpoint:
        got = f"none: {_anew(folder)}"
        raise SourceError(_problem(config, "spark", f"Spark's checkpoint in {folder.checkpoint}", got))
    if place < folder.handed:
        got = f"another that took rows up to micro-batch {folder.handed.part} meanwhile: {_anew(folder)}"
        required = f"no run without a log since the stream's log ended at micro-batch {place.part}"
        raise SourceError(_problem(config, "spark", required, got))
    if folder.begun:
        log.info("stream %s goes on after micro-batch %d; %s", config.name, place.part - 1, _anew(folder))


def _anew(folder: StateFolder) -> str:
    return f"remove {folder.path} to begin anew"


def _problem(config: StreamConfig, key: str, required: str, got: str) -> Problem:
    return Problem(str(config.path), f"{config.key}.{key}", required, got)
