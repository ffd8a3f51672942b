"""File work without a thread, for tests that say what happens when."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from node.io.threads.file_thread import Commit, run_jobs

T = TypeVar("T")


class AtOnce:
    """Does file work where and when it is asked to."""

    def put(self, work: Callable[[], T], then: Callable[[T | Exception], None], commit: Commit | None = None) -> None:
        for tell, result in run_jobs([(work, then, commit)]):
            tell(result)


class OnDemand:
    """Does file work when the test says so."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[], Any], Callable[[Any], None], Commit | None]] = deque()

    def put(self, work: Callable[[], T], then: Callable[[T | Exception], None], commit: Commit | None = None) -> None:
        self.waiting.append((work, then, commit))

    def step(self) -> None:
        AtOnce().put(*self.waiting.popleft())

    def run(self) -> None:
        while self.waiting:
            self.step()
