"""The Spark engine: windows live in Spark's executors, and everything a site's engine has to do at a time is one job.

The daemon keeps what it needs to split rows by key and to bring a worker up to date: schemas, bounds, and the
log of appends on disk. Operations without a question wait for the next job that has one: they change nothing that
anybody sees before.

A job has its number for good. If it has to be given up, its questions fail, but what it changes is in the log, so
it counts as done: whoever worked on it, or still does, has the right state, and whoever did not is behind.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
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
    Outcome,
    Probe,
    answer_schema,
)
from node.core.hashing import I64
from node.engine import checks
from spark_jobs.append_log import WindowLog
from spark_jobs.exchange import NOTHING, Exchange, Job
from spark_jobs.packing import Message, pack_rows, without_rows
from spark_jobs.partitions import picked, split_by_key, split_evenly
from spark_jobs.process import SparkDiedError, SparkError, SparkProcess
from spark_jobs.turn import Asked, Turn, WindowParts

log = logging.getLogger(__name__)

#: So much may wait for a question; then a job brings it to the workers.
PENDING_BYTES_MAX = 32 << 20
#: Spark ends Python workers that were idle for a minute, and with them their copies.
WARM_EVERY_S = 30.0
#: A job that fails this often in a row fails for a reason that will not go away.
TRIES = 3
_CATCH_UP_BYTES = 4 << 20
_CLOSE_GRACE_S = 5.0
_LEAST = -(2**63)


class SparkEngine:
    """An ``Engine``. Its methods may be called from several threads; ``rows`` and ``nbytes`` never wait for a job."""

    def __init__(self, process: SparkProcess, folder: Path, host: str | None, partitions: int) -> None:
        """``host``: where executors on other machines reach this one; None when they are on it."""
        self._process = process
        self._folder = folder
        self._partitions = partitions
        self._windows: dict[str, WindowParts] = {}
        #: Those that a partition may still have: also the ones that the job under way closes.
        self._known: dict[str, WindowParts] = {}
        self._turn = Turn(partitions)
        self._job = NOTHING + 1
        self._opened = 0
        self._lock = threading.Lock()
        self._last_s = time.monotonic()
        self._stopped = threading.Event()
        self.jobs = 0
        self.catch_ups: Counter[str] = Counter()
        self._exchange = Exchange(host, folder)
        process.serve_jobs(self._exchange.address, self._exchange.secret, partitions)
        threading.Thread(target=self._keep_warm, name="spark-warm", daemon=True).start()

    def run(self, ops: Sequence[Op]) -> list[pa.RecordBatch]:
        """Perform the operations in order; the answers of the probes and finds among them, in order."""
        (outcome,) = self.run_all([ops])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def run_all(self, groups: Sequence[Sequence[Op]]) -> list[Outcome]:
        """The same for several groups, in one job; each fails alone."""
        with self._lock:
            turn = self._turn
            taken = [self._take_group(turn, ops) for ops in groups]
            failed: dict[int, Exception] = {}
            if turn.asking or turn.nbytes >= PENDING_BYTES_MAX:
                failed = self._perform(turn)
        return [error or failed.get(group) or _answers(questions) for group, questions, error in taken]

    def flush(self) -> None:
        """Bring the workers what waits for a question."""
        with self._lock:
            if not self._turn.empty:
                self._perform(self._turn)

    def rows(self, window: str) -> int:
        """Live rows of a window, as of the last job."""
        return self._window("rows", window).total[0]

    def nbytes(self, window: str) -> int:
        """Bytes that a window takes in Spark's workers, as of the last job."""
        return self._window("nbytes", window).total[1]

    def close(self) -> None:
        """Let go of the workers, and of the log. Spark itself is stopped by whoever started it."""
        self._stopped.set()
        self._exchange.close()
        # A job that is under way ends now, because its workers are gone; unless Spark itself hangs.
        held = self._lock.acquire(timeout=_CLOSE_GRACE_S)
        for window in list(self._known.values()):
            window.log.remove()
        if held:
            self._lock.release()

    # --- putting a job together

    def _window(self, who: str, name: str) -> WindowParts:
        window = self._windows.get(name)
        if window is None:
            raise ValueError(f"{who}: an open window required, got {name!r}; open are {sorted(self._windows)}")
        return window

    def _whole_window(self, who: str, name: str) -> WindowParts:
        window = self._window(who, name)
        if window.broken is not None:
            raise SparkError(f"{who}: window {name!r} must have all its rows; it lacks some: {window.broken}")
        return window

    def _take_group(self, turn: Turn, ops: Sequence[Op]) -> tuple[int, list[Asked], Exception | None]:
        """Its number, its questions, and why it ended early, if it did."""
        group, questions = turn.new_group(), []
        try:
            for op in ops:
                asked = self._take(turn, group, op)
                if asked is not None:
                    questions.append(asked)
        except Exception as error:  # whatever it is, other groups go on
            return group, questions, error
        return group, questions, None

    def _take(self, turn: Turn, group: int, op: Op) -> Asked | None:
        match op:
            case OpenWindow():
                self._open(turn, group, op)
            case Append():
                self._append(turn, group, op)
            case Expire():
                window = self._window("expire", op.window)
                turn.expired[window.uid] = max(turn.expired.get(window.uid, _LEAST), op.before_ts)
                turn.tell_all(group, without_rows(op, window.uid))
            case CloseWindow():
                window = self._window("close", op.window)
                del self._windows[op.window]
                turn.closed.append(window)
                turn.tell_all(group, without_rows(op, window.uid))
            case Probe():
                return self._probe(turn, group, op)
            case Find():
                return self._find(turn, group, op)
        return None

    def _open(self, turn: Turn, group: int, op: OpenWindow) -> None:
        if op.window in self._windows:
            raise ValueError(f"open: a new name required, got {op.window!r}, which is open")
        checks.check_open(op)
        self._opened += 1
        uid = str(self._opened)
        bare = dataclasses.replace(op, window=uid)
        window_log = WindowLog(self._folder / f"window-{uid}", self._partitions)
        self._windows[op.window] = self._known[uid] = WindowParts(uid, bare, window_log, self._job, _LEAST)
        turn.tell_all(group, bare)

    def _append(self, turn: Turn, group: int, op: Append) -> None:
        window = self._whole_window("append", op.window)
        checks.check_append(op.window, window.op.schema, op.rows)
        bare = without_rows(op, window.uid)
        parts = [
            (number, picked(op.rows, places))
            for number, places in enumerate(self._split_window(window.op, op.rows))
            if len(places)
        ]
        packed = [(number, int(keycodes.integers(rows.column(TS)).max()), pack_rows(rows)) for number, rows in parts]
        for number, newest, body in packed:
            try:
                window.log.partitions[number].append(self._job, newest, body)
            except OSError as error:
                # A part of the rows is there. Nobody shall take it for all of them.
                window.broken = f"the log of appends could not be written: {error}"
                raise
            turn.tell(number, group, bare, body)

    def _split_window(self, window: OpenWindow, rows: pa.RecordBatch) -> list[I64]:
        if not rows.num_rows:
            return []
        if not window.keys:
            return split_evenly(rows, self._partitions)
        return split_by_key([rows.column(name) for name in window.keys], self._partitions)

    def _probe(self, turn: Turn, group: int, op: Probe) -> Asked:
        window = self._whole_window("probe", op.window)
        checks.check_probe(op, window.op.schema, window.op.keys)
        asked = Asked(group, answer_schema(op, window.op.schema))
        if not op.rows.num_rows:
            split: list[I64] = []
        elif window.op.keys:
            split = split_by_key([op.rows.column(name) for name in op.carry_keys], self._partitions)
        else:
            split = [np.arange(op.rows.num_rows)] * self._partitions
        turn.ask(without_rows(op, window.uid), op.rows, split, asked)
        return asked

    def _find(self, turn: Turn, group: int, op: Find) -> Asked:
        window = self._whole_window("find", op.window)
        checks.check_find(op, window.op.schema, window.op.keys)
        asked = Asked(group, pa.schema([*window.op.schema, pa.field(KEY, pa.int64())]), is_find=True)
        split = split_by_key(op.keys.columns, self._partitions) if op.keys.num_rows else []
        turn.ask(without_rows(op, window.uid), op.keys, split, asked)
        return asked

    # --- running it

    def _perform(self, turn: Turn) -> dict[int, Exception]:
        """Run the job; the groups that failed, with the reasons."""
        failed: dict[int, Exception] = {}
        try:
            job = Job(self._job, turn.work(), _CatchUp(self._job, list(self._known.values()), self.catch_ups))
            self._run_job(job)
            for partition, answer in sorted(job.answers.items()):
                reasons, sizes = turn.sort(partition, answer)
                failed |= {group: RuntimeError(reason) for group, reason in reasons.items()}
                for uid, size in sizes.items():
                    self._known[uid].note(partition, size)
        except Exception as error:
            log.warning("job %d is given up: %s", self._job, error)
            failed = dict.fromkeys(turn.asking, error)
        self._advance(turn)
        return failed

    def _advance(self, turn: Turn) -> None:
        """The job is over: nobody will ask for the state before it again."""
        for uid, before in turn.expired.items():
            window = self._known[uid]
            window.before = max(window.before, before)
            window.log.forget(window.before)
        for window in turn.closed:
            del self._known[window.uid]
            window.log.remove()
        self._job += 1
        self._turn = Turn(self._partitions)
        self._last_s = time.monotonic()

    def _run_job(self, job: Job) -> None:
        """Until every partition has answered. Raises NarrowsError if that cannot be had."""
        last: object = None
        try:
            for number in range(TRIES):
                if self._stopped.is_set():
                    raise SparkError(f"site {self._process.settings.site}: the engine is closed")
                # Offered anew each time: somebody may have taken a part of it and be gone without our knowing.
                self._exchange.offer(job)
                error = self._try_job()
                if job.done:
                    return
                last = error or f"its tasks ended, but only {len(job.answers)} of {len(job.work)} brought an answer"
                log.warning("job %d failed (%d of %d): %s", job.number, number + 1, TRIES, last)
            raise SparkError(f"{last}; {job.trouble}" if job.trouble else str(last))
        finally:
            self._exchange.withdraw()

    def _try_job(self) -> SparkError | None:
        """Run it once; what went wrong. A Spark that died is started again; raises NarrowsError if that fails."""
        self.jobs += 1
        try:
            self._process.run_job()
        except SparkDiedError as error:
            log.warning("%s; it is started again, and windows are rebuilt from the log", error)
            self._process.restart()
            return error
        except SparkError as error:
            return error
        return None

    def _keep_warm(self) -> None:
        while not self._stopped.wait(WARM_EVERY_S / 2):
            with self._lock:
                idle = time.monotonic() - self._last_s > WARM_EVERY_S
                if self._known and idle and not self._stopped.is_set():
                    self._perform(self._turn)


class _CatchUp:
    """What a worker needs that has the state of a partition after some earlier job. Read by other threads."""

    def __init__(self, job: int, known: Sequence[WindowParts], counts: Counter[str]) -> None:
        self._through = job - 1
        # As it was when the job began: the windows go on, and somebody may be late.
        self._windows = [(window, window.before) for window in known if window.opened < job]
        self._counts = counts

    def __call__(self, partition: int, after: int) -> Iterator[Message]:
        if after == self._through:
            return
        self._counts["rebuilt" if after == NOTHING else "behind"] += 1
        yield Message(("windows", [window.op for window, _ in self._windows]))
        for window, _ in self._windows:
            bodies: list[bytes] = []
            size = 0
            for entry in window.log.partitions[partition].entries(after, self._through):
                bodies.append(entry)
                size += len(entry)
                if size >= _CATCH_UP_BYTES:
                    yield Message(("rows", window.uid), bodies)
                    bodies, size = [], 0
            if bodies:
                yield Message(("rows", window.uid), bodies)
        yield Message(("expired", [(window.uid, before) for window, before in self._windows]))


def _answers(questions: Sequence[Asked]) -> Outcome:
    try:
        return [asked.whole() for asked in questions]
    except Exception as error:  # too much for one batch, for instance
        return error
