"""The engine beside the event loop: operations in, answers back, in order.

Everything that queued up while the engine worked is handed over together, so it
can fuse. What fails is that operation alone.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from node.core.effects import RunOp
from node.core.engine import Outcome, SiteEngine
from node.core.errors import invariant
from node.core.events import EngineFailed, Event, ProbeFinished
from node.io.threads.intake import take_all

log = logging.getLogger(__name__)

_STOP_S = 5.0


class EngineThread:
    """Runs an engine in a thread of its own."""

    def __init__(self, engine: SiteEngine, deliver: Callable[[list[Event]], None]) -> None:
        self._engine = engine
        self._deliver = deliver
        self._queue: queue.SimpleQueue[RunOp | None] = queue.SimpleQueue()
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
            taken = take_all(self._queue)
            if self._over.is_set():
                return
            began = time.thread_time()
            events = self._run(taken)
            self.busy_seconds += time.thread_time() - began
            if events and not self._over.is_set():
                self._deliver(events)

    def _run(self, taken: Sequence[RunOp]) -> list[Event]:
        outcomes: list[Outcome]
        try:
            outcomes = self._engine.run([effect.op for effect in taken])
            invariant(
                len(outcomes) == len(taken), f"{len(taken)} operations require an answer each; got {len(outcomes)}"
            )
        except Exception as error:  # the engine itself is in trouble: nobody gets an answer
            outcomes = [error] * len(taken)
        events: list[Event] = []
        for effect, outcome in zip(taken, outcomes, strict=True):
            if isinstance(outcome, Exception):
                if self._over.is_set():
                    return []
                log.error("engine failed on table %s", effect.op.table, exc_info=outcome)
                events.append(EngineFailed(effect.op_id, effect.op.table, f"the engine failed: {outcome}"))
            elif outcome is not None:
                events.append(ProbeFinished(effect.op_id, outcome))
        return events
