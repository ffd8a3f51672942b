"""Signals that end a command, between two things and never in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal count when the block is done: what is begun in it is known to the caller.

    So what is written is also counted, and a file that is opened is also removed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals do not reach this thread
        return
    held: list[Callable[[], object]] = []
    # One that is ignored, or ends the process at once, stays as it is.
    handlers = {number: handler for number in _ENDING if callable(handler := signal.getsignal(number))}

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(lambda: handlers[signal.Signals(number)](number, frame))

    try:
        for number in handlers:
            signal.signal(number, hold)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if held:
        held[0]()
