"""How a thread takes its work."""

from __future__ import annotations

import queue

from node.io.threads.intake import take_all


def test_what_waits_is_taken_together_and_in_order_up_to_the_end() -> None:
    waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    for item in (1, 2, 3):
        waiting.put(item)
    assert take_all(waiting) == [1, 2, 3]
    for last in (4, None, 5):
        waiting.put(last)
    assert take_all(waiting) == [4]
    assert take_all(waiting) == [5], "what came after the end is not lost"
