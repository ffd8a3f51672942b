"""File work beside the event loop: in order, told together, and finished before the daemon ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from node.io.file_thread import FileThread


@contextmanager
def files(loop: asyncio.AbstractEventLoop, calls: list[int] | None = None) -> Iterator[FileThread]:
    def call_soon(call: object) -> None:
        if calls is not None:
            calls.append(len(calls))
        loop.call_soon_threadsafe(call)  # type: ignore[arg-type]

    made = FileThread(call_soon)
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

        with files(asyncio.get_running_loop()) as thread:
            for number in range(10):
                thread.put(lambda number=number: work(number), then)  # type: ignore[misc]
            async with asyncio.timeout(30):
                await over.wait()
        assert worked == [(number, True) for number in range(10)]
        assert told == [(10 * number, True) for number in range(10)]

    asyncio.run(test())


def test_what_was_done_while_the_loop_was_busy_is_told_in_one_call() -> None:
    async def test() -> None:
        calls: list[int] = []
        begin, over = threading.Event(), asyncio.Event()
        with files(asyncio.get_running_loop(), calls) as thread:
            thread.put(begin.wait, lambda _: None)
            for _ in range(20):
                thread.put(lambda: None, lambda _: None)
            thread.put(lambda: None, lambda _: over.set())
            begin.set()
            async with asyncio.timeout(30):
                await over.wait()
        assert len(calls) == 1

    asyncio.run(test())


def test_what_goes_wrong_is_told_and_the_next_thing_is_done() -> None:
    async def test() -> None:
        told: list[object] = []
        over = asyncio.Event()

        def full() -> None:
            raise OSError(28, "No space left on device")

        def broken() -> None:
            raise ValueError("not a file matter")

        with files(asyncio.get_running_loop()) as thread:
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
    thread, done = FileThread(loop.call_soon_threadsafe), []
    loop.close()
    for number in range(5):
        thread.put(lambda number=number: done.append(number), lambda _: None)  # type: ignore[misc]
    thread.start()
    thread.stop()
    assert done == list(range(5))
