"""The logs beside the event loop: what is to be logged and read in, answers back.

All that queued up while the disk worked is done together, so that one sync serves many batches.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from node.core.events import Event
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
        #: Processor time of this thread; wall time would count waiting for the disk.
        self.busy_seconds = 0.0

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
            taken = self._take()
            if self._over.is_set():
                self._logs.close()
                return
            began = time.thread_time()
            events = self._logs.answer(taken)
            self.busy_seconds += time.thread_time() - began
            if events and not self._over.is_set():
                self._deliver(events)

    def _take(self) -> list[LogEffect]:
        """Wait for one, then take all there are."""
        taken: list[LogEffect] = []
        item = self._queue.get()
        while item is not None:
            taken.append(item)
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
        return taken
