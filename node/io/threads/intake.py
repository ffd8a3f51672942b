"""How a thread takes its work: it waits for one thing, then takes all there are, so that they are done together."""

from __future__ import annotations

import queue
from typing import TypeVar

T = TypeVar("T")


def take_all(waiting: queue.SimpleQueue[T | None]) -> list[T]:
    """What waits, in its order, at least one thing; up to a None, which says that the thread is to end."""
    taken: list[T] = []
    item = waiting.get()
    while item is not None:
        taken.append(item)
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            break
    return taken
