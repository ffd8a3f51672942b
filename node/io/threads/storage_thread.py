"""The site's disk beside the event loop: what is to be logged, kept and read in, answers back.

All that queued up while the disk worked is done together, so that one sync serves many batches, and one commit many
records. Tuples that are set aside are durable before the batch that was sealed with them: what the log says was
read is in it, or in a side file.

On a full disk nothing is answered: batches wait, logs can be read and trimmed, and records are written in the room
that is reserved for them, which nothing else gets (``headroom``). Without that room a daemon begins so too. Once a
second it is tried again. When the disk fails, the daemon has to stop: only the next life can know what is on it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from node.core.effects import AppendBatch, OpenLog, ReadLog, RemoveLog, SetAside, TrimLog, WriteRecords
from node.core.events import BatchLogged, Event
from node.core.records import RecordChange
from node.core.streams.position import SourcePlace
from node.io.sources.late_files import LateFiles
from node.io.threads.intake import take_all
from node.stack import Input, LifeRemembered, RememberLife
from node.storage.errors import NoRoomError, StorageError
from node.storage.headroom import Headroom
from node.storage.site_records import Records
from node.storage.stream_logs import LogEffect, StreamLogs

log = logging.getLogger(__name__)

_STOP_S = 5.0
#: How often a full disk is tried again.
RETRY_S = 1.0

#: What is done to logs in its order.
_InOrder = AppendBatch | OpenLog | RemoveLog
StorageEffect = LogEffect | SetAside | WriteRecords | RememberLife


class StorageReports(Protocol):
    """Who is told what came of it, from the storage thread."""

    def put_from_thread(self, inputs: list[Input]) -> None:
        """What the stack is to know."""

    def records_written_from_thread(self, count: int) -> None:
        """So many WriteRecords more are durable."""

    def disk_from_thread(self, trouble: str) -> None:
        """The disk is full, or, without text, is so no more."""

    def failed_from_thread(self, error: Exception) -> None:
        """The daemon has to stop."""


class StorageThread:
    """The one thread that writes and reads what a daemon keeps of its streams, and its records."""

    def __init__(
        self,
        logs: StreamLogs,
        records: Records,
        late: LateFiles,
        headroom: Headroom,
        reports: StorageReports,
        logged: Callable[[str, SourcePlace], None],
    ) -> None:
        """``logged``: tells the source of a stream that all before a place is durable."""
        self._logs = logs
        self._records = records
        self._late = late
        self._headroom = headroom
        self._reports = reports
        self._logged = logged
        self._queue: queue.SimpleQueue[StorageEffect | None] = queue.SimpleQueue()
        #: What is not done because the disk is full: what is set aside, and batches and logs after it; records.
        self._aside: list[SetAside | _InOrder] = []
        self._changes: list[WriteRecords] = []
        self._lives: list[RememberLife] = []
        self._trouble = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="storage", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, effect: StorageEffect) -> None:
        self._queue.put(effect)

    def stop(self) -> bool:
        """Nobody wants answers any more: finish what it is at, close the logs, and wait for that a while.

        Whether it ended: if not, it may write yet.
        """
        self._over.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        return not self._thread.is_alive()

    def _work(self) -> None:
        retry_s = 0.0
        if not self._safely(self._begin):
            return
        while True:
            left_s = max(0.0, retry_s - time.monotonic()) if self._trouble else None
            taken: list[StorageEffect] = take_all(self._queue, left_s)
            if self._over.is_set():
                self._logs.close()
                return
            again = bool(self._trouble) and time.monotonic() >= retry_s
            if again or not self._trouble:
                retry_s = time.monotonic() + RETRY_S
            if not self._safely(partial(self._do, taken, again)):
                return

    def _safely(self, work: Callable[[], None]) -> bool:
        """Whether it was done; if the disk failed, or this has a bug, the daemon is told to stop."""
        try:
            work()
        except Exception as error:
            if isinstance(error, StorageError):
                log.error("the disk failed: %s", error)
            else:
                log.exception("the storage thread failed")
            if not self._over.is_set():
                self._reports.failed_from_thread(error)
            return False
        return True

    def _begin(self) -> None:
        if not self._headroom.reserve():
            self._tell_trouble(self._headroom.missing)

    def _do(self, taken: list[StorageEffect], retry: bool) -> None:
        """All of it, as far as there is room; ``retry``: also what waits for room."""
        events: list[Event] = []
        trouble = ""
        if retry and not self._headroom.reserve():
            # What is free is not even what records may need: nothing is for the logs.
            trouble, retry = self._trouble, False
        if retry:
            events += self._logs.retry()
        for effect in taken:
            if isinstance(effect, RemoveLog) and self._trouble:
                # That may make the room for which the others wait.
                self._aside = [other for other in self._aside if other.stream != effect.stream]
                events += self._logs.answer([effect])
            elif isinstance(effect, SetAside | _InOrder):
                self._aside.append(effect)
        logging_now, full = self._set_aside() if retry or not self._trouble else ([], self._trouble)
        rest = [effect for effect in taken if isinstance(effect, ReadLog | TrimLog)]
        events += self._logs.answer([*logging_now, *rest])
        if self._logs.broken is not None:
            raise self._logs.broken
        self._tell_sources(events)
        self._changes += [effect for effect in taken if isinstance(effect, WriteRecords)]
        self._lives += [effect for effect in taken if isinstance(effect, RememberLife)]
        written, lives = self._write_records()
        if self._over.is_set():
            return
        if events or lives:
            self._reports.put_from_thread([*events, *lives])
        if written:
            self._reports.records_written_from_thread(written)
        self._tell_trouble(trouble or full or self._logs.full or self._headroom.lent)

    def _set_aside(self) -> tuple[list[_InOrder], str]:
        """Write what is to be set aside; which batches may be logged then, and why no more, if the disk is full."""
        may: list[_InOrder] = []
        written = 0
        full = ""
        for effect in self._aside:
            if isinstance(effect, _InOrder):
                may.append(effect)
            else:
                try:
                    self._late.write(effect.stream, effect.rows, effect.reason, effect.positions)
                except NoRoomError as error:
                    full = str(error)
                    break
            written += 1
        self._late.sync()
        del self._aside[:written]
        return may, full

    def _tell_sources(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, BatchLogged) and (place := self._logs.places.get(event.stream)) is not None:
                self._logged(event.stream, place)

    def _write_records(self) -> tuple[int, list[LifeRemembered]]:
        """How many WriteRecords became durable, all or none: they are one commit; and which lives of peers."""
        changes: list[RecordChange] = [change for effect in self._changes for change in effect.changes]
        count, lives = len(self._changes), list[LifeRemembered]()
        try:
            if self._changes:
                self._headroom.lend(partial(self._records.commit, changes))
                self._changes.clear()
            while self._lives:
                peer, met = self._lives[0].peer, self._lives[0].met
                self._headroom.lend(partial(self._records.remember, peer, met))
                lives.append(LifeRemembered(peer, met))
                del self._lives[0]
        except NoRoomError as error:
            self._tell_trouble(str(error))
        return count - len(self._changes), lives

    def _tell_trouble(self, trouble: str) -> None:
        if (self._changes or self._lives) and not trouble:
            return  # records wait for room, as was said
        if bool(trouble) != bool(self._trouble):
            if trouble:
                log.error("the disk is full: the site pauses until there is room: %s", trouble)
            else:
                log.warning("there is room on the disk again: the site goes on")
            self._reports.disk_from_thread(trouble)
        self._trouble = trouble
