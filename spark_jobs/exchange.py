"""Where Spark's Python workers get the work of a job, and bring its answers.

A job of Spark is as many tasks as there are partitions. A task is not bound to a partition: it says what its
worker holds and is given the partition that fits best. So it does not matter which worker Spark picks for which
task, and a worker that was replaced is just one that holds nothing. To choose well, the first task waits a little
for the others.

A partition is the state after a number of jobs. Whoever is behind is sent what it lacks, from the log; whoever is
ahead, because its task is tried again, begins anew. Answers depend on the log alone, so the first one counts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener

from spark_jobs.packing import pack, unpack

log = logging.getLogger(__name__)

#: Tasks of a job start together; so long the first waits for the last, then takes what there is.
GATHER_S = 0.25
_POLL_S = 0.05
#: A worker that holds nothing of a partition.
NOTHING = 0

#: What brings a partition from the state after one job to that after another: messages for its worker.
CatchUp = Callable[[int, int, int], Iterator[bytes]]


@dataclass(slots=True)
class Job:
    """The work of one job; job n starts from the state after job n - 1."""

    number: int
    #: For each partition its operations, packed.
    work: list[bytes]
    #: For each partition what its worker sent back.
    answers: dict[int, bytes] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    first_came: float | None = None

    @property
    def open(self) -> list[int]:
        """Partitions that nobody works on."""
        return [number for number in range(len(self.work)) if number not in self.taken and number not in self.answers]

    @property
    def done(self) -> bool:
        return len(self.answers) == len(self.work)


@dataclass(slots=True)
class _Asking:
    """A task that waits for a partition."""

    held: Mapping[int, int]
    given: int | None = None


class Exchange:
    """The daemon's end. One thread per worker that is connected."""

    def __init__(self, host: str | None, folder: os.PathLike[str], catch_up: CatchUp) -> None:
        """``host``: where workers on other machines reach this one; None: they are on it, a socket file will do."""
        self.secret = secrets.token_bytes(32)
        path = os.path.join(folder, "exchange")  # noqa: PTH118 - what Listener takes
        self._listener = Listener(path if host is None else (host, 0), authkey=self.secret, backlog=64)
        self._catch_up = catch_up
        self._changed = threading.Condition()
        self._job: Job | None = None
        self._asking: list[_Asking] = []
        self._connections: set[Connection] = set()
        self._closed = False
        threading.Thread(target=self._accept, name="exchange", daemon=True).start()

    @property
    def address(self) -> str | tuple[str, int]:
        """Where workers connect."""
        return self._listener.address  # type: ignore[no-any-return]

    def offer(self, job: Job) -> None:
        """The work that tasks are given from now on."""
        with self._changed:
            self._job = job
            self._changed.notify_all()

    def withdraw(self) -> None:
        """There is no work: the job is done, or given up."""
        with self._changed:
            self._job = None
            self._changed.notify_all()

    def close(self) -> None:
        self._closed = True
        self.withdraw()
        self._listener.close()
        with self._changed:
            for connection in list(self._connections):
                with contextlib.suppress(OSError):
                    connection.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection = self._listener.accept()
            except (OSError, EOFError, AuthenticationError) as error:
                if not self._closed:
                    log.warning("a connection to the exchange was refused: %s", error)
                continue
            without_delay(connection)
            threading.Thread(target=self._serve, args=(connection,), name="exchange-worker", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with self._changed:
            self._connections.add(connection)
        try:
            while True:
                held, _ = unpack(connection.recv_bytes())
                self._serve_task(connection, held)
        except (OSError, EOFError):
            pass  # the worker is gone; what it worked on is open again
        finally:
            with self._changed:
                self._connections.discard(connection)
            connection.close()

    def _serve_task(self, connection: Connection, held: Mapping[int, int]) -> None:
        job, partition = self._choose(held)
        if job is None or partition is None:
            connection.send_bytes(pack(None))
            return
        try:
            start = _start(held, partition, job)
            connection.send_bytes(pack((partition, start, job.number)))
            for message in self._catch_up(partition, start, job.number - 1):
                connection.send_bytes(message)
            connection.send_bytes(pack("now"))
            connection.send_bytes(job.work[partition])
            answer = connection.recv_bytes()
            with self._changed:
                job.answers.setdefault(partition, answer)
        finally:
            with self._changed:
                job.taken.discard(partition)
                self._changed.notify_all()

    def _choose(self, held: Mapping[int, int]) -> tuple[Job | None, int | None]:
        """The partition for a task whose worker holds these; None when there is nothing to do."""
        me = _Asking(held)
        with self._changed:
            job = self._job
            if job is None or not job.open:
                return job, None
            self._asking.append(me)
            if job.first_came is None:
                job.first_came = time.monotonic()
            try:
                while me.given is None and self._job is job and job.open:
                    waited = time.monotonic() - job.first_came
                    if len(self._asking) >= len(job.open) or waited >= GATHER_S:
                        self._match(job)
                        self._changed.notify_all()
                    else:
                        self._changed.wait(min(_POLL_S, GATHER_S - waited))
            finally:
                if me in self._asking:
                    self._asking.remove(me)
            return job, me.given

    def _match(self, job: Job) -> None:
        """Give every waiting task a partition: first to those that hold the newest state of one."""
        wishes = sorted(
            (-_start(asking.held, number, job), place, number)
            for place, asking in enumerate(self._asking)
            for number in job.open
        )
        for _, place, number in wishes:
            asking = self._asking[place]
            if asking.given is None and number not in job.taken:
                asking.given = number
                job.taken.add(number)
        self._asking = [asking for asking in self._asking if asking.given is None]


def _start(held: Mapping[int, int], partition: int, job: Job) -> int:
    """The state from which a worker can go on: not one that has seen this job already."""
    state = held.get(partition, NOTHING)
    return state if state < job.number else NOTHING


def without_delay(connection: Connection) -> None:
    """Send small messages at once, on TCP."""
    with socket.socket(fileno=os.dup(connection.fileno())) as link:
        if link.family != socket.AF_UNIX:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
