"""The exchange and its channel, with workers that are threads here: who gets which partition, and what of the dead."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_jobs.engine import exchange as exchanges
from spark_jobs.engine.channel import Channel, StrangerError, admit, connect
from spark_jobs.engine.exchange import NOTHING, WORK, Exchange, Job
from spark_jobs.engine.packing import Message

SECRET = b"s" * 32


# --- the channel -------------------------------------------------------------------------------------


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = socket.socketpair()
    with one, other:
        yield Channel(one), Channel(other)


@pytest.mark.parametrize("sizes", [[], [0], [1, 0, 63, 64, 65], [3] * 2000, [5_000_000, 1, 7_000_000]], ids=len)
def test_a_message_arrives_as_it_was_sent(ends: tuple[Channel, Channel], sizes: list[int]) -> None:
    rng = random.Random(1)
    bodies = [rng.randbytes(size) for size in sizes]
    sender = threading.Thread(target=ends[0].send, args=(("head", 7), bodies))
    sender.start()
    head, got = ends[1].receive()
    sender.join()
    assert head == ("head", 7)
    assert [bytes(body) for body in got] == bodies


def test_the_end_of_the_other_is_an_error(ends: tuple[Channel, Channel]) -> None:
    ends[0].close()
    with pytest.raises(OSError, match="gone"):
        ends[1].receive()


def proving(link: socket.socket, secret: bytes, failures: list[OSError]) -> None:
    try:
        admit(link, secret)
    except OSError as error:
        failures.append(error)


@pytest.mark.parametrize("theirs", [SECRET, b"t" * 32])
def test_only_who_knows_the_secret_is_admitted(theirs: bytes) -> None:
    one, other = socket.socketpair()
    failures: list[OSError] = []
    with one, other:
        thread = threading.Thread(target=proving, args=(one, SECRET, failures))
        thread.start()
        try:
            Channel(other).prove(theirs, b"worker", b"daemon")
        except StrangerError as error:
            failures.append(error)
        thread.join()
    assert len(failures) == (0 if theirs == SECRET else 2)


def test_a_proof_sent_back_proves_nothing() -> None:
    one, other = socket.socketpair()
    failures: list[OSError] = []
    with one, other:
        thread = threading.Thread(target=proving, args=(one, SECRET, failures))
        thread.start()
        for _ in range(2):
            other.sendall(other.recv(32))
        thread.join()
    assert [type(error) for error in failures] == [StrangerError]


# --- the exchange ------------------------------------------------------------------------------------


@pytest.fixture(params=[None, "127.0.0.1"], ids=["file", "tcp"])
def exchange(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Exchange]:
    made = Exchange(request.param, tmp_path)
    yield made
    made.close()


def a_job(number: int, partitions: int, lacking: Callable[[int, int], Iterator[Message]] | None = None) -> Job:
    work = [Message(f"work {partition}") for partition in range(partitions)]
    return Job(number, work, lacking or (lambda partition, after: iter(())))


@dataclass
class Worker:
    """The protocol of a worker, step by step."""

    exchange: Exchange
    held: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.channel = connect(self.exchange.address, self.exchange.secret)

    def ask(self) -> tuple[int, int, int] | None:
        self.channel.send(self.held)
        given: tuple[int, int, int] | None = self.channel.receive()[0]
        return given

    def answer(self, given: tuple[int, int, int]) -> None:
        while (head := self.channel.receive()[0])[0] != WORK:
            pass
        self.channel.send(f"answer to {head[1]}")
        assert self.channel.receive()[0] is None
        self.held[given[0]] = given[2]

    def task(self) -> int | None:
        given = self.ask()
        if given is not None:
            self.answer(given)
        return given and given[0]

    def close(self) -> None:
        self.channel.close()


def together(*workers: Worker) -> dict[int, int | None]:
    """All ask at the same time; what each worked on."""
    took: dict[int, int | None] = {}
    threads = [
        threading.Thread(target=lambda number=number, worker=worker: took.update({number: worker.task()}))
        for number, worker in enumerate(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def test_each_worker_gets_the_partition_that_it_holds(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "GATHER_S", 60.0)
    workers = [Worker(exchange) for _ in range(3)]
    first = a_job(1, 3)
    exchange.offer(first)
    took = together(*workers)
    assert sorted(took.values(), key=str) == [0, 1, 2]
    for number in (2, 3):
        job = a_job(number, 3)
        exchange.offer(job)
        assert together(*reversed(workers)) == {2 - place: partition for place, partition in took.items()}
        assert job.done
        assert {partition: head for partition, (head, _) in job.answers.items()} == {
            partition: f"answer to work {partition}" for partition in range(3)
        }


def test_who_is_behind_is_told_from_where_and_who_is_ahead_begins_anew(exchange: Exchange) -> None:
    asked: list[tuple[int, int]] = []

    def lacking(partition: int, after: int) -> Iterator[Message]:
        asked.append((partition, after))
        yield Message(("rows", "w"))

    for held, start in [({}, NOTHING), ({0: 3}, 3), ({0: 4}, 4), ({0: 5}, NOTHING), ({1: 4}, NOTHING)]:
        exchange.offer(a_job(5, 1, lacking))
        worker = Worker(exchange, dict(held))
        assert worker.ask() == (0, start, 5)
        worker.answer((0, start, 5))
        assert asked[-1] == (0, start)
        worker.close()


def test_what_a_dead_worker_had_taken_is_given_to_one_that_waits(exchange: Exchange) -> None:
    job = a_job(1, 1)
    exchange.offer(job)
    dead, next_one = Worker(exchange), Worker(exchange)
    assert dead.ask() is not None
    waiting = threading.Thread(target=next_one.task)
    waiting.start()
    dead.close()
    waiting.join()
    assert job.done


def test_a_worker_that_says_nothing_does_not_keep_the_job_for_ever(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "HANDOVER_S", 0.01)
    job = a_job(1, 1)
    exchange.offer(job)
    zombie, other = Worker(exchange), Worker(exchange)
    given = zombie.ask()
    assert given is not None
    assert other.task() is None
    exchange.offer(job)
    assert other.task() == 0
    assert job.done
    kept = job.answers[0]
    following = a_job(2, 1)
    exchange.offer(following)
    zombie.answer(given)
    assert job.answers[0] is kept
    assert not following.answers
    # It may still be of use.
    assert zombie.task() == 0
    assert following.done


def test_without_work_a_task_is_over_at_once(exchange: Exchange) -> None:
    worker = Worker(exchange)
    assert worker.task() is None
    job = a_job(1, 1)
    exchange.offer(job)
    assert worker.task() == 0
    assert worker.task() is None
    exchange.withdraw()
    assert worker.task() is None


def test_a_stranger_neither_gets_work_nor_keeps_others_from_it(exchange: Exchange) -> None:
    silent = socket.socket(socket.AF_UNIX if isinstance(exchange.address, str) else socket.AF_INET)
    with silent:
        silent.connect(exchange.address)
        with pytest.raises(OSError, match=r"secret|gone|reset"):
            connect(exchange.address, b"wrong")
        exchange.offer(a_job(1, 1))
        assert Worker(exchange).task() == 0


def test_closing_wakes_everybody(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "HANDOVER_S", 60.0)
    exchange.offer(a_job(1, 1))
    taker, waiter = Worker(exchange), Worker(exchange)
    given = taker.ask()
    assert given is not None
    failures: list[OSError] = []

    def wait() -> None:
        try:
            waiter.task()
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    exchange.close()
    thread.join()
    with pytest.raises(OSError):  # noqa: PT011 - whichever the system says
        taker.answer(given)
    with pytest.raises(OSError):  # noqa: PT011 - whichever the system says
        connect(exchange.address, exchange.secret)


def test_a_long_folder_name_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    made = Exchange(None, folder)
    Worker(made).close()
    made.close()
    assert isinstance(made.address, str)
    assert not Path(made.address).parent.exists()
