"""The engine beside the event loop: operations in, answers back, in order.

Everything that queued up while the engine worked is handed over together, so it
can fuse. One query's failure is that query's alone.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from node.core.effects import RunOp
from node.core.engine import CloseWindow, Question, SiteEngine
from node.core.events import EngineFailed, Event, ProbeFinished

log = logging.getLogger(__name__)

_FAILED_KEPT = 1_000
_STOP_S = 5.0


class EngineThread:
    """Runs an engine in a thread of its own."""

    def __init__(self, engine: SiteEngine, deliver: Callable[[list[Event]], None]) -> None:
        self._engine = engine
        self._deliver = deliver
        self._queue: queue.SimpleQueue[RunOp | None] = queue.SimpleQueue()
        #: The last queries that failed; of those before, nothing is asked any more.
        self._failed: dict[str, None] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        #: Processor time of this thread; wall time would count waiting for others.
        self.busy_seconds = 0.0

    def start(self) -> None:
        self._thread.start()

    def put(self, effect: RunOp) -> None:
        self._queue.put(effect)

    def stop(self) -> None:
        """Nobody wants answers any more: close the engine, which ends what it is at, and wait for it a while."""
        self._over.set()
        self._queue.put(None)
        self._engine.close()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _work(self) -> None:
        while True:
            taken = self._take()
            if self._over.is_set():
                return
            began = time.thread_time()
            events = self._run(taken)
            self.busy_seconds += time.thread_time() - began
            if events and not self._over.is_set():
                self._deliver(events)

    def _take(self) -> list[tuple[str, list[RunOp]]]:
        """Wait for one operation, then take all there are: neighbours of one query together, all in their order.

        The order of different queries matters too: one may probe a window that another fills.
        """
        taken: list[tuple[str, list[RunOp]]] = []
        item = self._queue.get()
        while item is not None:
            if not taken or taken[-1][0] != item.query_id:
                taken.append((item.query_id, []))
            taken[-1][1].append(item)
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
        return taken

    def _run(self, taken: list[tuple[str, list[RunOp]]]) -> list[Event]:
        # Of a query that failed, windows are in an unknown state; closing them is all that is still wanted.
        wanted = [
            (query_id, [effect for effect in effects if query_id not in self._failed or _closes(effect)])
            for query_id, effects in taken
        ]
        try:
            outcomes = self._engine.run_all([[effect.op for effect in effects] for _, effects in wanted])
        except Exception as error:  # the engine itself is in trouble: nobody gets an answer
            outcomes = [error] * len(wanted)
        events: list[Event] = []
        for (query_id, effects), outcome in zip(wanted, outcomes, strict=True):
            if query_id in self._failed:
                continue
            if isinstance(outcome, Exception):
                if self._over.is_set():
                    return []
                log.error("engine failed on query %s", query_id, exc_info=outcome)
                self._failed[query_id] = None
                if len(self._failed) > _FAILED_KEPT:
                    del self._failed[next(iter(self._failed))]
                events.append(EngineFailed(query_id, f"the engine failed: {outcome}"))
                continue
            questions = [effect.op_id for effect in effects if isinstance(effect.op, Question)]
            events += [ProbeFinished(op_id, rows) for op_id, rows in zip(questions, outcome, strict=True)]
        return events


def _closes(effect: RunOp) -> bool:
    return isinstance(effect.op, CloseWindow)
