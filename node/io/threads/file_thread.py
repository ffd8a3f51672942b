"""File work beside the event loop: one thing after the other, and what came of it back on the loop.

All that was asked for at a time is done and told together. Whoever asks keeps what it knows on the loop's
thread, and only the work itself, which touches nothing but files, is done here.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
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
    """A thread of its own for files. What the loop asks for at a time is handed over together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: list[_Job] = []
        self._queue: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="files", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """From the loop's thread."""
        self._asked.append((work, then))
        if len(self._asked) == 1 and not self._loop.is_closed():
            self._loop.call_soon(self._hand_over)

    def stop(self) -> None:
        """Do what is left to do, and wait for that a while; nobody is told of it any more."""
        self._hand_over()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _hand_over(self) -> None:
        if self._asked:
            asked, self._asked = self._asked, []
            self._queue.put(asked)

    def _work(self) -> None:
        while (jobs := self._queue.get()) is not None:
            done = [(then, _result(work)) for work, then in jobs]
            with suppress(RuntimeError):  # the loop is closed: nobody wants to know
                self._loop.call_soon_threadsafe(_tell, done)


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
        try:
            then(result)
        except Exception:
            # Those behind it are told all the same.
            log.exception("what follows file work failed")
