"""The logs of all streams of a site: what the core asks of them, and what they answer.

It has no thread of its own: a daemon calls it from one (``storage_thread``), the simulator as it likes.

When the disk is full, batches wait: they are not answered, and what follows them waits too, until ``retry`` finds room.
What is logged can be read and forgotten all the while.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Protocol

from node.core.effects import AppendBatch, OpenLog, ReadLog, RemoveLog, TrimLog
from node.core.events import BatchLogged, Event, LogFailed, LogRead, LogUnread
from node.core.streams.position import SourcePlace
from node.core.streams.sealer import Batch
from node.storage.errors import DiskFailedError, NoRoomError, StorageError
from node.storage.memory_log import MemoryLogs
from node.storage.stream_log import StreamLog

log = logging.getLogger(__name__)

LogEffect = AppendBatch | ReadLog | OpenLog | RemoveLog | TrimLog


class LogMaker(Protocol):
    """Where logs of streams are that come and go."""

    def open(self, stream: str) -> StreamLog:
        """A new log, without anything; raises StorageError if it cannot be had."""

    def remove(self, stream: str) -> None:
        """Remove what there is of a log, which is closed; raises StorageError if that is not possible."""


class StreamLogs:
    """One log for each stream."""

    def __init__(self, logs: Mapping[str, StreamLog], maker: LogMaker | None = None) -> None:
        """``maker``: where the logs of streams are that come and go; None: in memory."""
        self._logs = dict(logs)
        self.maker: LogMaker = maker or MemoryLogs()
        #: Streams of which a batch could not be logged: those after it cannot be either, and that was said.
        self._failed: dict[str, None] = {}
        #: Batches that wait for room, by stream.
        self._waiting: dict[str, list[Batch]] = {}
        #: Why they wait; nothing while there is room.
        self.full = ""
        #: How far the source of a stream was read for what is durable.
        self.places: dict[str, SourcePlace] = {}
        #: The disk failed: the daemon has to stop.
        self.broken: DiskFailedError | None = None

    def add(self, stream: str, kept: StreamLog) -> None:
        """There is another stream, whose log this is."""
        self._logs[stream] = kept

    @property
    def nbytes(self) -> dict[str, int]:
        """How much each log keeps."""
        return {stream: kept.nbytes for stream, kept in self._logs.items()}

    def answer(self, effects: Sequence[LogEffect]) -> list[Event]:
        """Do all of them. A bug is told as the failure of their streams: without an answer these would stand still."""
        try:
            return self.run(effects)
        except Exception as error:
            log.exception("the logs failed")
            streams = dict.fromkeys(effect.stream for effect in effects)
            self._failed |= streams
            return [LogFailed(stream, f"the log failed: {error}") for stream in streams]

    def run(self, effects: Sequence[LogEffect]) -> list[Event]:
        """Do all of them: first what is to be logged, with one sync for each stream, then the rest in its order.

        So a read may find batches that were to be logged after it; their BatchLogged comes before its LogRead. Only
        streams that come and go do so at their place.
        """
        events: list[Event] = []
        for is_other, group in groupby(effects, lambda effect: isinstance(effect, OpenLog | RemoveLog)):
            part = list(group)
            events += self._change(part) if is_other else self._use(part)
        return events

    def _change(self, effects: Sequence[LogEffect]) -> list[Event]:
        events: list[Event] = []
        for effect in effects:
            if isinstance(effect, OpenLog):
                try:
                    self._logs[effect.stream] = self.maker.open(effect.stream)
                except StorageError as error:
                    self._failed[effect.stream] = None
                    events.append(self._problem(effect.stream, error))
            elif isinstance(effect, RemoveLog):
                self._remove(effect.stream)
        return events

    def _remove(self, stream: str) -> None:
        """What is left of it is removed when the daemon starts the next time."""
        self._failed.pop(stream, None)
        self._waiting.pop(stream, None)
        self.places.pop(stream, None)
        gone = self._logs.pop(stream, None)
        if gone is None:
            return
        gone.close()
        try:
            self.maker.remove(stream)
        except StorageError as error:
            if isinstance(error, DiskFailedError):
                self.broken = error
            log.warning("the log of stream %s cannot be removed: %s", stream, error)

    def _use(self, effects: Sequence[LogEffect]) -> list[Event]:
        events = self._append([effect for effect in effects if isinstance(effect, AppendBatch)])
        for effect in effects:
            match effect:
                case ReadLog():
                    events.append(self._read(effect))
                case TrimLog():
                    self._trim(effect)
        return events

    def retry(self) -> list[Event]:
        """Log what waits for room, if there is some now."""
        waiting, self._waiting, self.full = self._waiting, {}, ""
        events: list[Event] = []
        for stream, batches in waiting.items():
            events += self._commit(stream, batches)
        return events

    def _read(self, effect: ReadLog) -> LogRead | LogUnread:
        """A read that fails is the reader's trouble alone."""
        if effect.stream not in self._logs:
            return LogUnread(effect.reader, f"there is no log of stream {effect.stream}")
        try:
            return LogRead(effect.reader, self._logs[effect.stream].read_from(effect.tick))
        except StorageError as error:
            log.error("the log of stream %s cannot be read: %s", effect.stream, error)
            return LogUnread(effect.reader, str(error))

    def _trim(self, effect: TrimLog) -> None:
        """What cannot be removed takes room, and harms nobody; unless the disk is broken."""
        if effect.stream not in self._logs:
            return
        try:
            self._logs[effect.stream].trim(effect.tick)
        except StorageError as error:
            if isinstance(error, DiskFailedError):
                self.broken = error
            log.warning("the log of stream %s cannot be trimmed: %s", effect.stream, error)

    def _append(self, effects: Sequence[AppendBatch]) -> list[Event]:
        wanted: dict[str, list[Batch]] = {}
        for effect in effects:
            if effect.stream in self._waiting:
                self._waiting[effect.stream].append(effect.batch)
            elif effect.stream in self._logs and effect.stream not in self._failed:
                wanted.setdefault(effect.stream, []).append(effect.batch)
        events: list[Event] = []
        for stream, batches in wanted.items():
            events += self._commit(stream, batches)
        return events

    def _commit(self, stream: str, batches: list[Batch]) -> list[Event]:
        kept = self._logs[stream]
        before = kept.frontier
        failure: list[Event] = []
        try:
            for batch in batches:
                kept.append(batch)
            kept.commit()
        except NoRoomError as error:
            self._waiting[stream] = [batch for batch in batches if batch.span.end > kept.frontier]
            self.full = str(error)
        except StorageError as error:
            self._failed[stream] = None
            failure = [self._problem(stream, error)]
        for batch in batches:
            if batch.span.end <= kept.frontier and batch.place is not None:
                self.places[stream] = batch.place
        # A group that needs several files may fail in the second: what is in the first is durable.
        if kept.frontier == before:
            return failure
        return [BatchLogged(stream, kept.frontier, kept.sizes_from(before)), *failure]

    def _problem(self, stream: str, error: StorageError) -> LogFailed:
        if isinstance(error, DiskFailedError):
            self.broken = error
        log.error("the log of stream %s failed: %s", stream, error)
        return LogFailed(stream, str(error))

    def close(self) -> None:
        for kept in self._logs.values():
            kept.close()
