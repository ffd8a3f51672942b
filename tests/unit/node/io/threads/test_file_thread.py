"""File work beside the event loop: in order, told together, and finished before the daemon ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from node.io.threads.file_thread import FileThread


@contextmanager
def files() -> Iterator[FileThread]:
    made = FileThread(asyncio.get_running_loop())
    made.start()
    yield made
    made.stop()


def test_work_is_done_in_order_elsewhere_and_its_results_are_told_on_the_loop() -> None:
    async def test() -> None:
        here, worked, told = threading.get_ident(), [], []
        over = asyncio.Event()

        def work(number: int) -> int:
            worked.append((number, threading.get_ident() != here))
            return 10 * number

        def then(result: int | Exception) -> None:
            told.append((result, threading.get_ident() == here))
            if result == 90:
                over.set()

        with files() as thread:
            for number in range(10):
                thread.put(lambda number=number: work(number), then)  # type: ignore[misc]
            async with asyncio.timeout(30):
                await over.wait()
        assert worked == [(number, True) for number in range(10)]
        assert told == [(10 * number, True) for number in range(10)]

    asyncio.run(test())


def test_what_was_asked_for_at_a_time_is_told_at_a_time() -> None:
    async def test() -> None:
        told: list[int] = []
        over = asyncio.Event()
        with files() as thread:
            for number in range(20):
                thread.put(lambda number=number: number, told.append)  # type: ignore[misc, arg-type]
            asyncio.get_running_loop().call_soon(lambda: thread.put(lambda: None, lambda _: over.set()))
            async with asyncio.timeout(30):
                while not told:
                    await asyncio.sleep(0)
                assert told == list(range(20))
                await over.wait()

    asyncio.run(test())


def test_what_goes_wrong_is_told_and_the_next_thing_is_done() -> None:
    async def test() -> None:
        told: list[object] = []
        over = asyncio.Event()

        def full() -> None:
            raise OSError(28, "No space left on device")

        def broken() -> None:
            raise ValueError("not a file matter")

        with files() as thread:
            thread.put(full, told.append)
            thread.put(broken, told.append)
            thread.put(lambda: 1, told.append)
            thread.put(lambda: None, lambda _: over.set())
            async with asyncio.timeout(30):
                await over.wait()
        assert [type(result) for result in told] == [OSError, ValueError, int]

    asyncio.run(test())


def test_stopping_finishes_what_was_asked_for_even_if_the_loop_is_gone() -> None:
    loop = asyncio.new_event_loop()
    thread, done = FileThread(loop), []
    thread.put(lambda: done.append(0), lambda _: None)
    loop.close()
    for number in range(1, 5):
        thread.put(lambda number=number: done.append(number), lambda _: None)  # type: ignore[misc]
    thread.start()
    thread.stop()
    assert done == list(range(5))
