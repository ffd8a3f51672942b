"""Where Spark's Python workers get the work of a job, and bring its answers.

A job of Spark is as many tasks as there are partitions, and a task works on one of them: not on a certain one, but
on the one of which its worker has the newest copy. So it does not matter which worker Spark picks for which task,
and a worker that was replaced is just one that holds nothing. To choose well, the first task waits a little for the
workers that took part in the last job.

A partition is the state after a number of jobs. Whoever is behind is sent what it lacks, from the log; whoever is
ahead, because its task is tried again, begins anew. Answers depend on the log alone, so the first one counts, and it
does no harm if a task that everybody has given up still brings one, or takes part in a later job.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.engine.channel import Address, Channel, admit
from spark_jobs.engine.packing import Message

log = logging.getLogger(__name__)

#: Tasks of a job start together; so long the first waits for the others at most, then takes what there is.
GATHER_S = 0.25
#: A task that finds nothing to do waits so long for another to fail, then leaves; if need be, the job is run again.
HANDOVER_S = 5.0
#: A worker that holds nothing of a partition.
NOTHING = 0
#: What ends the messages that bring a worker up to date: the next one is the work.
WORK = "work"
#: Paths of socket files may be so long, on every system.
_PATH_BYTES_MAX = 100

#: What brings a partition from the state after some job to that before this one: messages for its worker.
CatchUp = Callable[[int, int], Iterator[Message]]
#: A head, and bodies.
Answer = tuple[Any, list[memoryview]]


@dataclass(slots=True)
class Job:
    """The work of one job; job n starts from the state after job n - 1."""

    number: int
    #: For each partition its operations.
    work: list[Message]
    catch_up: CatchUp
    #: For each partition what its worker sent back.
    answers: dict[int, Answer] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    #: What went wrong at this end, if anything did.
    trouble: Exception | None = None

    @property
    def open(self) -> list[int]:
        """Partitions that nobody works on."""
        return [number for number in range(len(self.work)) if number not in self.taken and number not in self.answers]

    @property
    def done(self) -> bool:
        return len(self.answers) == len(self.work)


@dataclass(slots=True, eq=False)
class _Worker:
    """A worker that is connected."""

    channel: Channel
    held: Mapping[int, int] = field(default_factory=dict)
    #: The last job to which it came.
    came: int = NOTHING
    given: int | None = None


class Exchange:
    """The daemon's end. One thread per worker that is connected."""

    def __init__(self, host: str | None, folder: Path) -> None:
        """``host``: where workers on other machines reach this one; None: they are on it, a socket file will do."""
        self.secret = secrets.token_bytes(32)
        self._path = _socket_path(folder) if host is None else None
        self._listener = _listen(host, self._path)
        self.address: Address = str(self._path) if host is None else self._listener.getsockname()[:2]
        self._changed = threading.Condition()
        self._job: Job | None = None
        self._asking: list[_Worker] = []
        self._workers: set[_Worker] = set()
        self._closed = False
        threading.Thread(target=self._accept, name="exchange", daemon=True).start()

    def offer(self, job: Job) -> None:
        """The work that tasks are given from now on. Offered again, it is given to others if nobody answered yet."""
        with self._changed:
            self._job = job
            job.taken.clear()
            self._changed.notify_all()

    def withdraw(self) -> None:
        """There is no work: the job is done, or given up."""
        with self._changed:
            self._job = None
            self._changed.notify_all()

    def close(self) -> None:
        """Let go of all workers."""
        with self._changed:
            self._closed = True
            self._job = None
            for worker in self._workers:
                worker.channel.shutdown()
            self._changed.notify_all()
        with contextlib.suppress(OSError):  # some systems refuse that for a listener, and wake it all the same
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # there is more in it, so it is not one that was made for this alone
                self._path.parent.rmdir()

    def _accept(self) -> None:
        while not self._closed:
            try:
                link, _ = self._listener.accept()
            except OSError as error:
                if not self._closed:
                    log.warning("the exchange cannot take a connection: %s", error)
                    time.sleep(0.1)
                continue
            # Whoever it is, it must not keep others from connecting.
            threading.Thread(target=self._admit, args=(link,), name="exchange-worker", daemon=True).start()

    def _admit(self, link: socket.socket) -> None:
        with link:
            try:
                worker = _Worker(admit(link, self.secret))
            except OSError as error:
                log.warning("a connection to the exchange was refused: %s", error)
                return
            with self._changed:
                if self._closed:
                    return
                self._workers.add(worker)
            try:
                while True:
                    worker.held, _ = worker.channel.receive()
                    self._serve_task(worker)
            except OSError:
                pass  # the worker is gone; what it worked on is open again
            finally:
                with self._changed:
                    self._workers.discard(worker)
                    self._changed.notify_all()

    def _serve_task(self, worker: _Worker) -> None:
        job, partition = self._choose(worker)
        if job is None or partition is None:
            worker.channel.send(None)
            return
        try:
            answer = _work_on(worker, job, partition)
            with self._changed:
                job.answers.setdefault(partition, answer)
            worker.channel.send(None)
        except Exception as error:
            if not isinstance(error, ConnectionError):
                log.warning("partition %d of job %d could not be served: %s", partition, job.number, error)
                job.trouble = error
            raise
        finally:
            with self._changed:
                job.taken.discard(partition)
                self._changed.notify_all()

    def _choose(self, worker: _Worker) -> tuple[Job | None, int | None]:
        """The partition for a task on this worker; None when there is nothing to do."""
        with self._changed:
            job = self._job
            if job is None:
                return None, None
            worker.came, worker.given = job.number, None
            self._asking.append(worker)
            came_s = time.monotonic()
            try:
                while worker.given is None and self._job is job and not job.done:
                    waited = time.monotonic() - came_s
                    if not job.open:
                        # Others work on all that is left. This task may be there because one of them died.
                        if waited >= HANDOVER_S:
                            break
                        self._changed.wait(HANDOVER_S - waited)
                    elif waited >= GATHER_S or not self._worth_waiting(job):
                        self._match(job)
                    else:
                        self._changed.wait(GATHER_S - waited)
            finally:
                if worker in self._asking:
                    self._asking.remove(worker)
                # Whoever waits for this one need not any more.
                self._changed.notify_all()
            return job, worker.given

    def _worth_waiting(self, job: Job) -> bool:
        """Whether somebody who probably holds a part of it may still come, and there is something left for it."""
        awaited = any(worker.came == job.number - 1 for worker in self._workers)
        return awaited and len(self._asking) < len(job.open)

    def _match(self, job: Job) -> None:
        """Give every waiting task a partition: first to those that hold the newest state of one."""
        wishes = sorted(
            (-_start(worker.held, number, job), place, number)
            for place, worker in enumerate(self._asking)
            for number in job.open
        )
        for _, place, number in wishes:
            worker = self._asking[place]
            if worker.given is None and number not in job.taken:
                worker.given = number
                job.taken.add(number)
        self._asking = [worker for worker in self._asking if worker.given is None]


def _work_on(worker: _Worker, job: Job, partition: int) -> Answer:
    start = _start(worker.held, partition, job)
    channel, work = worker.channel, job.work[partition]
    channel.send((partition, start, job.number))
    for message in job.catch_up(partition, start):
        channel.send(message.head, message.bodies)
    channel.send((WORK, work.head), work.bodies)
    return channel.receive()


def _start(held: Mapping[int, int], partition: int, job: Job) -> int:
    """The state from which a worker can go on: not one that has seen this job already."""
    state = held.get(partition, NOTHING)
    return state if state < job.number else NOTHING


def _listen(host: str | None, path: Path | None) -> socket.socket:
    if path is None:
        family = socket.AF_INET6 if host and ":" in host else socket.AF_INET
        return socket.create_server((host or "", 0), family=family, backlog=64)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(64)
    except OSError:
        listener.close()
        raise
    return listener


def _socket_path(folder: Path) -> Path:
    path = folder / "exchange"
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        path = Path(tempfile.mkdtemp(prefix="narrows-")) / "exchange"
    return path
