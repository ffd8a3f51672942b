"""The logs beside the event loop: what is to be logged and read in, answers back.

All that queued up while the disk worked is done together, so that one sync serves many batches.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from node.core.events import Event
from node.io.threads.intake import take_all
from node.storage.stream_logs import LogEffect, StreamLogs

_STOP_S = 5.0


class StorageThread:
    """The one thread that writes and reads the logs of a daemon."""

    def __init__(self, logs: StreamLogs, deliver: Callable[[list[Event]], None]) -> None:
        self._logs = logs
        self._deliver = deliver
        self._queue: queue.SimpleQueue[LogEffect | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="storage", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, effect: LogEffect) -> None:
        self._queue.put(effect)

    def stop(self) -> None:
        """Nobody wants answers any more: finish what it is at, close the logs, and wait for that a while."""
        self._over.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _work(self) -> None:
        while True:
            taken: list[LogEffect] = take_all(self._queue)
            if self._over.is_set():
                self._logs.close()
                return
            events = self._logs.answer(taken)
            if events and not self._over.is_set():
                self._deliver(events)
