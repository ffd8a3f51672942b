"""The Spark engine: windows live in Spark's executors, and everything a site's engine has to do at a time is one job.

The daemon keeps what it needs to split rows by key and to bring a worker up to date: schemas, bounds, and the
log of appends on disk. Operations without a question wait for the next job that has one: they change nothing that
anybody sees before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from node.core import keycodes
from node.core.engine import (
    KEY,
    TS,
    Append,
    CloseWindow,
    Expire,
    Find,
    Op,
    OpenWindow,
    Probe,
    answer_schema,
)
from node.core.hashing import I64
from node.engine import checks
from spark_jobs.append_log import WindowLog
from spark_jobs.exchange import NOTHING, Exchange, Job
from spark_jobs.packing import Numbered, pack, pack_ops, pack_rows, unpack, unpack_rows, without_rows
from spark_jobs.partitions import picked, split_by_key, split_evenly
from spark_jobs.process import SparkDiedError, SparkError, SparkProcess

log = logging.getLogger(__name__)

#: So much may wait for a question; then a job brings it to the workers.
PENDING_BYTES_MAX = 32 << 20
#: Spark ends Python workers that were idle for a minute, and with them their copies.
WARM_EVERY_S = 30.0
#: A job that fails this often in a row, with Spark alive, fails for a reason that will not go away.
TRIES = 3
_CATCH_UP_BYTES = 4 << 20
_LEAST = -(2**63)


@dataclass(slots=True)
class _Window:
    """What the daemon knows of a window."""

    uid: str
    op: OpenWindow
    log: WindowLog
    #: The job that opens it.
    opened: int
    #: As of the last job that is done.
    before: int = _LEAST
    #: Rows and bytes in each partition, as of the last job.
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Asked:
    """A question of a job, and what of its rows went where."""

    schema: pa.Schema
    #: For a Find: which keys each partition was asked for.
    places: dict[int, I64] = field(default_factory=dict)
    is_find: bool = False
    answers: dict[int, pa.RecordBatch] = field(default_factory=dict)


@dataclass(slots=True)
class _Turn:
    """The job that is being put together."""

    partitions: int
    ops: list[list[tuple[Numbered, memoryview | None]]] = field(init=False)
    #: For each partition and group the questions it was sent, in order.
    sent: list[dict[int, deque[int]]] = field(init=False)
    questions: list[_Asked] = field(default_factory=list)
    expired: dict[str, int] = field(default_factory=dict)
    closed: list[_Window] = field(default_factory=list)
    groups: int = 0
    nbytes: int = 0
    #: Whether somebody waits for rows.
    asked: bool = False

    def __post_init__(self) -> None:
        self.ops = [[] for _ in range(self.partitions)]
        self.sent = [defaultdict(deque) for _ in range(self.partitions)]


class SparkEngine:
    """An ``Engine``. Its methods may be called from several threads."""

    def __init__(self, process: SparkProcess, folder: Path, host: str | None, partitions: int) -> None:
        """``host``: where executors on other machines reach this one; None when they are on it."""
        self._process = process
        self._folder = folder
        self._partitions = partitions
        self._windows: dict[str, _Window] = {}
        #: Those that a partition may still have: also the ones that the job under way closes.
        self._known: dict[str, _Window] = {}
        self._turn = _Turn(partitions)
        self._job = NOTHING + 1
        self._opened = 0
        self._lock = threading.Lock()
        self._last_s = time.monotonic()
        self._stopped = threading.Event()
        self.jobs = 0
        self.catch_ups: Counter[str] = Counter()
        self._exchange = Exchange(host, folder, self._catch_up)
        process.serve_jobs(self._exchange.address, self._exchange.secret, partitions)
        threading.Thread(target=self._keep_warm, name="spark-warm", daemon=True).start()

    def run(self, ops: Sequence[Op]) -> list[pa.RecordBatch]:
        """Perform the operations in order; the answers of the probes and finds among them, in order."""
        (outcome,) = self.run_all([ops])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def run_all(self, groups: Sequence[Sequence[Op]]) -> list[list[pa.RecordBatch] | Exception]:
        """The same for several groups, in one job; each fails alone."""
        with self._lock:
            turn = self._turn
            asked: list[list[int]] = []
            failed: dict[int, Exception] = {}
            base = turn.groups
            for place, ops in enumerate(groups):
                first = len(turn.questions)
                try:
                    for op in ops:
                        self._take(turn, base + place, op)
                except ValueError as error:
                    failed[place] = error
                asked.append(list(range(first, len(turn.questions))))
            turn.groups += len(groups)
            if turn.asked or turn.nbytes >= PENDING_BYTES_MAX:
                for group, reason in self._perform(turn).items():
                    if group >= base:
                        failed.setdefault(group - base, RuntimeError(reason))
            outcomes = [
                failed.get(place) or [_whole(turn.questions[number]) for number in numbers]
                for place, numbers in enumerate(asked)
            ]
            turn.questions.clear()
            return outcomes

    def rows(self, window: str) -> int:
        """Live rows of a window, as of the last job."""
        return sum(rows for rows, _ in self._window("rows", window).sizes.values())

    def nbytes(self, window: str) -> int:
        """Bytes that a window takes in Spark's workers, as of the last job."""
        return sum(nbytes for _, nbytes in self._window("nbytes", window).sizes.values())

    def close(self) -> None:
        """Let go of the workers. Spark itself is stopped by whoever started it."""
        self._stopped.set()
        self._exchange.close()

    # --- putting a job together

    def _window(self, who: str, name: str) -> _Window:
        if name not in self._windows:
            raise ValueError(f"{who}: an open window required, got {name!r}; open are {sorted(self._windows)}")
        return self._windows[name]

    def _take(self, turn: _Turn, group: int, op: Op) -> None:
        match op:
            case OpenWindow():
                self._open(turn, group, op)
            case Append():
                self._append(turn, group, op)
            case Expire():
                window = self._window("expire", op.window)
                turn.expired[window.uid] = max(turn.expired.get(window.uid, _LEAST), op.before_ts)
                self._tell_all(turn, group, op, window)
            case CloseWindow():
                window = self._window("close", op.window)
                del self._windows[op.window]
                turn.closed.append(window)
                self._tell_all(turn, group, op, window)
            case Probe():
                self._probe(turn, group, op)
            case Find():
                self._find(turn, group, op)

    def _open(self, turn: _Turn, group: int, op: OpenWindow) -> None:
        if op.window in self._windows:
            raise ValueError(f"open: a new name required, got {op.window!r}, which is open")
        checks.check_open(op)
        self._opened += 1
        uid = str(self._opened)
        window = _Window(uid, op, WindowLog(self._folder / f"window-{uid}", self._partitions), self._job)
        self._windows[op.window] = self._known[uid] = window
        self._tell_all(turn, group, op, window)

    def _tell_all(self, turn: _Turn, group: int, op: Op, window: _Window) -> None:
        for ops in turn.ops:
            ops.append((Numbered(group, without_rows(op, window.uid)), None))

    def _append(self, turn: _Turn, group: int, op: Append) -> None:
        window = self._window("append", op.window)
        checks.check_append(op.window, window.op.schema, op.rows)
        bare = without_rows(op, window.uid)
        for number, places in enumerate(self._split_window(window, op.rows)):
            if len(places):
                rows = picked(op.rows, places)
                packed = pack_rows(rows)
                window.log.partitions[number].append(self._job, int(keycodes.integers(rows.column(TS)).max()), packed)
                turn.ops[number].append((Numbered(group, bare), packed))
                turn.nbytes += len(packed)

    def _split_window(self, window: _Window, rows: pa.RecordBatch) -> list[I64]:
        if not rows.num_rows:
            return []
        if not window.op.keys:
            return split_evenly(rows, self._partitions)
        return split_by_key([rows.column(name) for name in window.op.keys], self._partitions)

    def _probe(self, turn: _Turn, group: int, op: Probe) -> None:
        window = self._window("probe", op.window)
        checks.check_probe(op, window.op.schema, window.op.keys)
        asked = _Asked(answer_schema(op, window.op.schema))
        if not op.rows.num_rows:
            split: list[I64] = []
        elif window.op.keys:
            split = split_by_key([op.rows.column(name) for name in op.carry_keys], self._partitions)
        else:
            split = [np.arange(op.rows.num_rows)] * self._partitions
        self._ask(turn, group, without_rows(op, window.uid), op.rows, split, asked)

    def _find(self, turn: _Turn, group: int, op: Find) -> None:
        window = self._window("find", op.window)
        checks.check_find(op, window.op.schema, window.op.keys)
        asked = _Asked(pa.schema([*window.op.schema, pa.field(KEY, pa.int64())]), is_find=True)
        split = split_by_key(op.keys.columns, self._partitions) if op.keys.num_rows else []
        self._ask(turn, group, without_rows(op, window.uid), op.keys, split, asked)

    def _ask(
        self, turn: _Turn, group: int, bare: Op, rows: pa.RecordBatch, split: Sequence[I64], asked: _Asked
    ) -> None:
        question = len(turn.questions)
        turn.questions.append(asked)
        for number, places in enumerate(split):
            if len(places):
                turn.asked = True
                asked.places[number] = places
                turn.ops[number].append((Numbered(group, bare), pack_rows(picked(rows, places))))
                turn.sent[number][group].append(question)

    # --- running it

    def _perform(self, turn: _Turn) -> dict[int, str]:
        """Run the job; the groups that failed, with the reasons."""
        job = Job(self._job, [pack_ops(ops) for ops in turn.ops])
        self._run_job(job)
        failed: dict[int, str] = {}
        for partition, answer in sorted(job.answers.items()):
            (head, broken, sizes), bodies = unpack(answer)
            failed |= broken
            self._sort_answers(turn, partition, head, bodies)
            for uid, size in sizes.items():
                self._known[uid].sizes[partition] = size
        self._advance(turn)
        return failed

    def _sort_answers(self, turn: _Turn, partition: int, head: list[tuple[int, int]], bodies: list[memoryview]) -> None:
        remaining = iter(bodies)
        for group, count in head:
            for _ in range(count):
                asked = turn.questions[turn.sent[partition][group].popleft()]
                rows = unpack_rows(next(remaining))
                asked.answers[partition] = _renumbered(rows, asked.places[partition]) if asked.is_find else rows

    def _advance(self, turn: _Turn) -> None:
        """The job is done: nobody will ask for the state before it again."""
        for uid, before in turn.expired.items():
            window = self._known[uid]
            window.before = max(window.before, before)
            window.log.forget(window.before)
        for window in turn.closed:
            del self._known[window.uid]
            window.log.remove()
        self._job += 1
        self._turn = _Turn(self._partitions)

    def _run_job(self, job: Job) -> None:
        """Until every partition has answered. Raises SparkError if that cannot be had."""
        self._exchange.offer(job)
        failures = 0
        try:
            while not job.done:
                try:
                    self.jobs += 1
                    self._process.run_job()
                except SparkDiedError as error:
                    log.warning("%s; it is started again, and windows are rebuilt from the log", error)
                    self._process.restart()
                except SparkError as error:
                    failures += 1
                    log.warning("job %d failed (%d of %d): %s", job.number, failures, TRIES, error)
                    if failures == TRIES:
                        raise
        finally:
            self._exchange.withdraw()
            self._last_s = time.monotonic()

    def _catch_up(self, partition: int, after: int, through: int) -> Iterator[bytes]:
        """What a worker needs that has the state after job ``after`` of a partition."""
        if after == through:
            return
        self.catch_ups["rebuilt" if after == NOTHING else "behind"] += 1
        windows = [window for window in self._known.values() if window.opened <= through]
        yield pack(("windows", [_under(window.op, window.uid) for window in windows]))
        for window in windows:
            bodies: list[bytes] = []
            for entry in window.log.partitions[partition].entries(after, through):
                bodies.append(entry)
                if sum(map(len, bodies)) >= _CATCH_UP_BYTES:
                    yield pack(("rows", window.uid), bodies)
                    bodies = []
            if bodies:
                yield pack(("rows", window.uid), bodies)
        yield pack(("expired", [(window.uid, window.before) for window in windows]))

    def _keep_warm(self) -> None:
        while not self._stopped.wait(WARM_EVERY_S / 2):
            with self._lock:
                if self._known and time.monotonic() - self._last_s > WARM_EVERY_S and not self._stopped.is_set():
                    try:
                        self._perform(self._turn)
                    except SparkError as error:
                        log.warning("Spark is in trouble: %s", error)


def _under(op: OpenWindow, uid: str) -> Op:
    return without_rows(op, uid)


def _renumbered(rows: pa.RecordBatch, places: I64) -> pa.RecordBatch:
    """The answer of a Find by the numbers of the keys as they were asked for."""
    last = rows.num_columns - 1
    numbers = pa.array(places[keycodes.integers(rows.column(last))])
    return pa.RecordBatch.from_arrays([*rows.columns[:last], numbers], schema=rows.schema)


def _whole(asked: _Asked) -> pa.RecordBatch:
    """The answers of all partitions as one, in their order."""
    parts = [asked.answers[number] for number in sorted(asked.answers)]
    if not parts:
        return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in asked.schema.types], schema=asked.schema)
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
