"""The logs of all streams of a site: what the core asks of them, and what they answer.

It has no thread of its own: a daemon calls it from one (``storage_thread``), the simulator as it likes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from node.core.effects import AppendBatch, ReadLog, TrimLog
from node.core.events import BatchLogged, Event, LogFailed, LogRead, LogUnread
from node.storage.errors import StorageError
from node.storage.stream_log import StreamLog

log = logging.getLogger(__name__)

LogEffect = AppendBatch | ReadLog | TrimLog


class StreamLogs:
    """One log for each stream."""

    def __init__(self, logs: Mapping[str, StreamLog]) -> None:
        self._logs = dict(logs)
        #: Streams of which a batch could not be logged: those after it cannot be either, and that was said.
        self._failed: dict[str, None] = {}

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

        So a read may find batches that were to be logged after it; their BatchLogged comes before its LogRead.
        """
        events = self._append([effect for effect in effects if isinstance(effect, AppendBatch)])
        for effect in effects:
            match effect:
                case ReadLog():
                    events.append(self._read(effect))
                case TrimLog():
                    self._trim(effect)
        return events

    def _read(self, effect: ReadLog) -> LogRead | LogUnread:
        """A read that fails is the reader's trouble alone."""
        try:
            return LogRead(effect.reader, self._logs[effect.stream].read_from(effect.tick))
        except StorageError as error:
            log.error("the log of stream %s cannot be read: %s", effect.stream, error)
            return LogUnread(effect.reader, str(error))

    def _trim(self, effect: TrimLog) -> None:
        """What cannot be removed takes room, and harms nobody."""
        try:
            self._logs[effect.stream].trim(effect.tick)
        except StorageError as error:
            log.warning("the log of stream %s cannot be trimmed: %s", effect.stream, error)

    def _append(self, effects: Sequence[AppendBatch]) -> list[Event]:
        wanted = [effect for effect in effects if effect.stream not in self._failed]
        for effect in wanted:
            self._logs[effect.stream].append(effect.batch)
        events: list[Event] = []
        for stream in dict.fromkeys(effect.stream for effect in wanted):
            events += self._commit(stream)
        return events

    def _commit(self, stream: str) -> list[Event]:
        kept = self._logs[stream]
        before = kept.frontier
        failure: list[Event] = []
        try:
            kept.commit()
        except StorageError as error:
            self._failed[stream] = None
            failure = [self._problem(stream, error)]
        # A group that needs several files may fail in the second: what is in the first is durable.
        return [BatchLogged(stream, kept.frontier), *failure] if kept.frontier != before else failure

    @staticmethod
    def _problem(stream: str, error: StorageError) -> LogFailed:
        log.error("the log of stream %s failed: %s", stream, error)
        return LogFailed(stream, str(error))

    def close(self) -> None:
        for kept in self._logs.values():
            kept.close()
