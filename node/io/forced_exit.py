"""The last resort when a process stops: whatever still keeps it from ending after a while is left as it is.

Everything that can be ended is ended in order. What cannot is a thread in the middle of a long computation, such as
the search for a plan, for which Python would wait.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class ForcedExit:
    """Ends the process, and removes what it has for itself alone, unless it is told in time that all is done."""

    def __init__(self, remove: Callable[[], None], after_s: float) -> None:
        self._remove = remove
        self._after_s = after_s
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Stopping begins."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="overdue", daemon=True)
            self._thread.start()

    def done(self) -> None:
        """Nothing is left to be waited for."""
        self._done.set()

    def _watch(self) -> None:
        if self._done.wait(self._after_s):
            return
        busy = ", ".join(sorted(thread.name for thread in threading.enumerate() if thread.name != "overdue"))
        log.warning("stopping requires at most %g s; ended although these threads are at work: %s", self._after_s, busy)
        try:
            self._remove()
        finally:
            os._exit(1)
