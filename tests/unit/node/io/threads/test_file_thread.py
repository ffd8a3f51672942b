"""File work beside the event loop: in order, told together, and finished before the daemon ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from node.io.threads import file_thread
from node.io.threads.file_thread import FileThread, run_jobs


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
    assert thread.stop()
    assert done == list(range(5))


def test_work_that_hangs_is_not_said_to_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    thread, hang = FileThread(loop), threading.Event()
    loop.close()
    thread.put(hang.wait, lambda _: None)
    thread.start()
    monkeypatch.setattr(file_thread, "_STOP_S", 0.01)
    assert not thread.stop()
    hang.set()
    monkeypatch.setattr(file_thread, "_STOP_S", 30)
    assert thread.stop()


def test_work_that_is_done_together_is_committed_once_and_what_fails_is_told_to_all_of_it() -> None:
    done: list[str] = []

    def commit() -> None:
        done.append("commit")

    def fail() -> None:
        raise OSError("no disk")

    def write(name: str) -> str:
        done.append(name)
        return name

    told: list[object] = []
    jobs = [
        (lambda: write("a"), told.append, commit),
        (lambda: write("b"), told.append, None),
        (lambda: write("c"), told.append, commit),
        (lambda: write("d"), told.append, fail),
        (lambda: write("e"), told.append, fail),
    ]
    for then, result in run_jobs(jobs):
        then(result)
    assert done == ["a", "b", "c", "d", "e", "commit"]
    assert told[:3] == ["a", "b", "c"]
    assert [str(error) for error in told[3:]] == ["no disk", "no disk"]


def test_work_that_failed_by_itself_needs_no_commit() -> None:
    committed: list[bool] = []

    def work() -> None:
        raise OSError("full")

    ((_, result),) = run_jobs([(work, lambda _: None, lambda: committed.append(True))])
    assert (str(result), committed) == ("full", [])


def test_what_is_asked_for_while_it_works_is_done_together_and_stopping_ends_it() -> None:
    async def test() -> None:
        begun, gone, over = threading.Event(), threading.Event(), asyncio.Event()
        commits: list[bool] = []

        def commit() -> None:
            commits.append(True)

        def first() -> None:
            begun.set()
            gone.wait()

        with files() as thread:
            thread.put(first, lambda _: None)
            await asyncio.to_thread(begun.wait)
            for number in range(5):
                thread.put(lambda: None, lambda _, last=number == 4: over.set() if last else None, commit)  # type: ignore[misc]
                await asyncio.sleep(0.01)  # a turn of the loop each
            gone.set()
            async with asyncio.timeout(30):
                await over.wait()
        assert commits == [True]
        assert not thread._thread.is_alive()

    asyncio.run(test())
