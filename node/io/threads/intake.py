"""How a thread takes its work: it waits for one thing, then takes all there are, so that they are done together."""

from __future__ import annotations

import queue
from typing import TypeVar

T = TypeVar("T")


def take_all(waiting: queue.SimpleQueue[T | None], patience_s: float | None = None) -> list[T]:
    """What waits, in its order, at least one thing; up to a None, which says that the thread is to end.

    Nothing if nothing comes within ``patience_s``.
    """
    taken: list[T] = []
    try:
        item = waiting.get(timeout=patience_s)
    except queue.Empty:
        return taken
    while item is not None:
        taken.append(item)
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            break
    return taken
