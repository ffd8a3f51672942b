"""File work beside the event loop: one thing after the other, and what came of it back on the loop.

All that was asked for while it was at work is done, committed and told together. Whoever asks keeps what it knows
on the loop's thread, and only the work itself, which touches nothing but files, is done here.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from node.io.threads.intake import take_all
from planner.model.errors import NarrowsError

log = logging.getLogger(__name__)

_STOP_S = 5.0

T = TypeVar("T")
Commit = Callable[[], None]
_Job = tuple[Callable[[], Any], Callable[[Any], None], Commit | None]


class FileWork(Protocol):
    """Something that does file work in the order in which it is asked to."""

    def put(self, work: Callable[[], T], then: Callable[[T | Exception], None], commit: Commit | None = None) -> None:
        """Do ``work`` after all before it, and call ``then``, on the loop, with its result, or with what it raised.

        Its result counts after ``commit``, which is called once for all work that is done together and has the same;
        what that raises is the result of all of it.
        """


class FileThread:
    """A thread of its own for files. What the loop asks for at a time is handed over together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: list[_Job] = []
        self._queue: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="files", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, work: Callable[[], T], then: Callable[[T | Exception], None], commit: Commit | None = None) -> None:
        """From the loop's thread."""
        self._asked.append((work, then, commit))
        if len(self._asked) == 1 and not self._loop.is_closed():
            self._loop.call_soon(self._hand_over)

    def stop(self) -> bool:
        """Do what is left to do, and wait for that a while; nobody is told of it any more.

        Whether it ended: if not, it may write yet.
        """
        self._hand_over()
        self._over.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        return not self._thread.is_alive()

    def _hand_over(self) -> None:
        if self._asked:
            asked, self._asked = self._asked, []
            self._queue.put(asked)

    def _work(self) -> None:
        while groups := take_all(self._queue):
            done = run_jobs([job for jobs in groups for job in jobs])
            with suppress(RuntimeError):  # the loop is closed: nobody wants to know
                self._loop.call_soon_threadsafe(_tell, done)
            if self._over.is_set() and self._queue.empty():
                return


def run_jobs(jobs: Sequence[_Job]) -> list[tuple[Callable[[Any], None], object]]:
    """Do them in order, commit what asks for it, and say what is to be told to whom."""
    results = [(then, _result(work), commit) for work, then, commit in jobs]
    committed: dict[Commit, object] = {}
    for _, result, commit in results:
        if commit is not None and commit not in committed and not isinstance(result, Exception):
            committed[commit] = _result(commit)
    return [
        (then, failed if commit is not None and isinstance(failed := committed.get(commit), Exception) else result)
        for then, result, commit in results
    ]


def _result(work: Callable[[], object]) -> object:
    try:
        return work()
    except (OSError, NarrowsError) as error:
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
