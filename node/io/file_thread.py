"""File work beside the event loop: one thing after the other, and what came of it back on the loop.

All that was done while the loop was busy is told together. Whoever asks keeps what it knows on the loop's
thread, and only the work itself, which touches nothing but files, is done here.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

log = logging.getLogger(__name__)

_STOP_S = 5.0

T = TypeVar("T")
_Job = tuple[Callable[[], Any], Callable[[Any], None]]


class FileWork(Protocol):
    """Something that does file work in the order in which it is asked to."""

    def put(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Do ``work`` after all before it, and call ``then``, on the loop, with its result, or with what it raised."""


class FileThread:
    """A thread of its own for files."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        #: Calls something on the loop, from any thread.
        self._call_soon = call_soon
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="files", daemon=True)
        #: Processor time of this thread.
        self.busy_seconds = 0.0

    def start(self) -> None:
        self._thread.start()

    def put(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        self._queue.put((work, then))

    def stop(self) -> None:
        """Do what is left to do, and wait for that a while; nobody is told of it any more."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _work(self) -> None:
        job = self._queue.get()
        while job is not None:
            began = time.thread_time()
            done = []
            while job is not None:
                done.append((job[1], _result(job[0])))
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
            self.busy_seconds += time.thread_time() - began
            with suppress(RuntimeError):  # the loop is closed: nobody wants to know
                self._call_soon(lambda done=done: _tell(done))  # type: ignore[misc]
            if job is not None:
                job = self._queue.get()


def _result(work: Callable[[], object]) -> object:
    try:
        return work()
    except OSError as error:
        return error
    except Exception as error:
        log.exception("file work failed")
        return error


def _tell(done: list[tuple[Callable[[Any], None], object]]) -> None:
    for then, result in done:
        then(result)
