"""The logs of a run that uses no disk: no thread, but the interface of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from node.core.events import Event
from node.storage.memory_log import MemoryLog
from node.storage.stream_logs import LogEffect, StreamLogs


class MemoryStorage:
    """Does at the next turn of the event loop all that was asked for in this one."""

    def __init__(self, streams: Iterable[str], deliver: Callable[[list[Event]], None]) -> None:
        self._logs = StreamLogs({stream: MemoryLog() for stream in streams})
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._effects: list[LogEffect] = []
        self._over = False

    def start(self) -> None:
        """Nothing to do."""

    def put(self, effect: LogEffect) -> None:
        """From the event loop's thread."""
        if not self._effects:
            self._loop.call_soon(self._run)
        self._effects.append(effect)

    def stop(self) -> bool:
        """Nobody wants answers any more; always true: it writes nothing."""
        self._over = True
        return True

    def _run(self) -> None:
        effects, self._effects = self._effects, []
        events = [] if self._over else self._logs.answer(effects)
        if events:
            self._deliver(events)
