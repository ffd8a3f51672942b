"""The Spark engine: tables live in Spark's executors, and everything a site's engine has to do at a time is one job.

The daemon keeps what it needs to split rows by key and to bring a worker up to date: schemas, bounds, and the
log of appends on disk. Operations without a question wait for the next job that has one: they change nothing that
anybody sees before.

A job has its number for good. If it has to be given up, its questions fail, but what it changes is in the log, so
it counts as done: whoever worked on it, or still does, has the right state, and whoever did not is behind.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from node.core.engine import (
    POSITION,
    Append,
    Change,
    CloseIndex,
    CloseTable,
    Expire,
    Op,
    OpenIndex,
    OpenTable,
    Outcome,
    Probe,
    Question,
    find_schema,
    probe_schema,
)
from node.core.keys import keycodes
from node.engine import checks
from spark_jobs.engine.append_log import StoreLog
from spark_jobs.engine.exchange import NOTHING, Exchange, Job
from spark_jobs.engine.packing import Message, pack_rows, without_rows
from spark_jobs.engine.partitions import picked, split_by_key, split_table
from spark_jobs.engine.stores import CHUNK_BYTES, LEAST, Keys, SplitTable, Store
from spark_jobs.engine.turn import Asked, Turn
from spark_jobs.process import SparkDiedError, SparkError, SparkProcess

log = logging.getLogger(__name__)

#: So much may wait for a question; then a job brings it to the workers.
PENDING_BYTES_MAX = 32 << 20
#: Spark ends Python workers that were idle for a minute, and with them their copies.
WARM_EVERY_S = 30.0
#: A job that fails this often in a row fails for a reason that will not go away.
TRIES = 3
_CLOSE_GRACE_S = 5.0


class SparkEngine:
    """An ``Engine``. Its methods may be called from several threads; ``rows`` and ``nbytes`` never wait for a job."""

    def __init__(self, process: SparkProcess, folder: Path, host: str | None, partitions: int) -> None:
        """``host``: where executors on other machines reach this one; None when they are on it."""
        self._process = process
        self._folder = folder
        self._partitions = partitions
        self._tables: dict[str, SplitTable] = {}
        #: The stores that a partition may still have: also the ones that the job under way closes.
        self._known: dict[str, Store] = {}
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

    def run(self, ops: Sequence[Op]) -> list[Outcome]:
        """Perform the operations, in one job if there is a question; for each of them what became of it."""
        with self._lock:
            taken = [self._take(op) for op in ops]
            if self._turn.asking:
                self._perform()
        return [_whole(each) if isinstance(each, Asked) else each for each in taken]

    def flush(self) -> None:
        """Bring the workers what waits for a question."""
        with self._lock:
            if not self._turn.empty:
                self._perform()

    def rows(self, table: str) -> int:
        """Live rows of a table, as of the last job."""
        # Every store has them all; one that is new may not have told yet.
        return max((store.total[0] for store in self._stores_of("rows", table)), default=0)

    def nbytes(self, table: str) -> int:
        """Bytes that a table takes in Spark's workers, as of the last job."""
        return sum(store.total[1] for store in self._stores_of("nbytes", table))

    def close(self) -> None:
        """Let go of the workers, and of the log. Spark itself is stopped by whoever started it."""
        self._stopped.set()
        self._exchange.close()
        # A job that is under way ends now, because its workers are gone; unless Spark itself hangs.
        held = self._lock.acquire(timeout=_CLOSE_GRACE_S)
        for store in list(self._known.values()):
            store.log.remove()
        if held:
            self._lock.release()

    # --- putting a job together

    def _table(self, who: str, name: str) -> SplitTable:
        table = self._tables.get(name)
        if table is None:
            raise ValueError(f"{who}: an open table required, got {name!r}; open are {sorted(self._tables)}")
        return table

    def _whole_table(self, who: str, name: str) -> SplitTable:
        table = self._table(who, name)
        if table.broken is not None:
            raise SparkError(f"{who}: table {name!r} must have all its rows; it lacks some: {table.broken}")
        return table

    def _stores_of(self, who: str, name: str) -> list[Store]:
        # At once, because another thread may open and close some.
        return list(self._table(who, name).stores.values())

    def _take(self, op: Op) -> Asked | Exception | None:
        """Put an operation into the turn: the question that it is, or why it is refused."""
        try:
            if isinstance(op, Question):
                return self._ask(op)
            self._change(op)
            self._relieve()
        except Exception as error:  # whatever it is, other operations go on
            return error
        return None

    def _change(self, op: Change) -> None:
        match op:
            case OpenTable():
                if op.table in self._tables:
                    raise ValueError(f"open: a new name required, got {op.table!r}, which is open")
                checks.check_table(op)
                self._tables[op.table] = SplitTable(op.schema)
            case OpenIndex():
                self._open_index(op)
            case CloseIndex():
                table = self._table("close index", op.table)
                checks.check_opened("close index", op.table, op.keys, table.indexes)
                del table.indexes[op.keys]
                self._close_unused(table)
            case Append():
                self._append(op)
            case Expire():
                table = self._table("expire", op.table)
                table.before = max(table.before, op.before)
                for store in table.stores.values():
                    self._turn.expire(store, op.before)
            case CloseTable():
                for store in self._stores_of("close", op.table):
                    self._turn.close(store)
                del self._tables[op.table]

    def _open_index(self, op: OpenIndex) -> None:
        table = self._whole_table("open index", op.table)
        checks.check_index(op, table.schema, table.indexes)
        if op.keys not in table.stores:
            self._fill(table, op.keys, list(table.stores.values()))
        table.indexes[op.keys] = None
        self._close_unused(table)

    def _fill(self, table: SplitTable, keys: Keys, others: Sequence[Store]) -> None:
        """A new store with all that the others have, brought to the workers in jobs of a bounded size."""
        if others and others[0].log.nbytes + self._turn.nbytes >= PENDING_BYTES_MAX:
            # It may take several jobs; none of them may forget a part of the log that is still to be read.
            self._perform()
        through = self._job
        made = self._new_store(table, keys)
        try:
            for rows in others[0].chunks(through) if others else ():
                self._put(table, made, rows)
                self._relieve()
        except BaseException:
            # It lacks rows, and would be taken for whole by whoever opens this index next.
            del table.stores[keys]
            self._turn.close(made)
            raise

    def _close_unused(self, table: SplitTable) -> None:
        for store in table.unused:
            del table.stores[store.keys]
            self._turn.close(store)

    def _new_store(self, table: SplitTable, keys: Keys) -> Store:
        self._opened += 1
        uid = str(self._opened)
        opening = OpenTable(uid, table.schema), OpenIndex(uid, keys)
        store_log = StoreLog(self._folder / f"store-{uid}", self._partitions)
        store = table.stores[keys] = self._known[uid] = Store(uid, keys, opening, store_log, self._job)
        self._turn.open(store)
        if table.before > LEAST:
            self._turn.expire(store, table.before)
        return store

    def _append(self, op: Append) -> None:
        table = self._whole_table("append", op.table)
        checks.check_append(op.table, table.schema, op.rows)
        if not table.stores:
            self._new_store(table, ())
        for store in table.stores.values():
            self._put(table, store, op.rows)

    def _put(self, table: SplitTable, store: Store, rows: pa.RecordBatch) -> None:
        """Append rows to a store: to the log, and to what its partitions are told."""
        for number, places in enumerate(split_table(rows, store.keys, self._partitions)):
            if not len(places):
                continue
            part = picked(rows, places)
            newest, body = int(keycodes.integers(part.column(POSITION)).max()), pack_rows(part)
            try:
                store.log.partitions[number].append(self._job, newest, body)
            except OSError as error:
                # A part of the rows is there. Nobody shall take it for all of them.
                table.broken = f"the log of appends could not be written: {error}"
                raise
            self._turn.append(number, store, body)

    def _ask(self, op: Question) -> Asked:
        who = "probe" if isinstance(op, Probe) else "find"
        table = self._whole_table(who, op.table)
        checks.check_opened(who, op.table, op.keys, table.indexes)
        checks.check_question(op, table.schema)
        if isinstance(op, Probe):
            schema, rows = probe_schema(op, table.schema), op.rows
            columns = [rows.column(name) for name in op.carry_keys]
        else:
            schema, rows, columns = find_schema(op, table.schema), op.wanted, op.wanted.columns
        # Without keys, every partition has something to say to every row.
        everywhere = [np.arange(rows.num_rows)] * self._partitions
        split = split_by_key(columns, self._partitions) if columns else everywhere
        return self._turn.ask(without_rows(op, table.stores[op.keys].uid), schema, rows, split)

    # --- running it

    def _relieve(self) -> None:
        """Bring the workers what waits, if it is much."""
        if self._turn.nbytes >= PENDING_BYTES_MAX:
            self._perform()

    def _perform(self) -> None:
        """Run the job: its questions have their answers then, or the reason why not."""
        turn = self._turn
        try:
            job = Job(self._job, turn.work(), _CatchUp(self._job, list(self._known.values()), self.catch_ups))
            self._run_job(job)
            for partition, answer in sorted(job.answers.items()):
                for uid, size in turn.sort(partition, answer).items():
                    self._known[uid].note(partition, size)
        except Exception as error:
            log.warning("job %d is given up: %s", self._job, error)
            for asked in turn.asking.values():
                asked.failed = error
        self._advance(turn)

    def _advance(self, turn: Turn) -> None:
        """The job is over: nobody will ask for the state before it again."""
        for uid, before in turn.expired.items():
            store = self._known[uid]
            store.before = max(store.before, before)
            store.log.forget(store.before)
        for store in turn.closed:
            del self._known[store.uid]
            store.log.remove()
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
            log.warning("%s; it is started again, and tables are rebuilt from the log", error)
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
                    self._perform()


class _CatchUp:
    """What a worker needs that has the state of a partition after some earlier job. Read by other threads."""

    def __init__(self, job: int, known: Sequence[Store], counts: Counter[str]) -> None:
        self._through = job - 1
        # As it was when the job began: the stores go on, and somebody may be late.
        self._stores = [(store, store.before) for store in known if store.opened < job]
        self._counts = counts

    def __call__(self, partition: int, after: int) -> Iterator[Message]:
        if after == self._through:
            return
        self._counts["rebuilt" if after == NOTHING else "behind"] += 1
        yield Message(("stores", [store.opening for store, _ in self._stores]))
        for store, _ in self._stores:
            bodies: list[bytes] = []
            size = 0
            for entry in store.log.partitions[partition].entries(after, self._through):
                bodies.append(entry)
                size += len(entry)
                if size >= CHUNK_BYTES:
                    yield Message(("rows", store.uid), bodies)
                    bodies, size = [], 0
            if bodies:
                yield Message(("rows", store.uid), bodies)
        yield Message(("expired", [(store.uid, before) for store, before in self._stores]))


def _whole(asked: Asked) -> Outcome:
    if asked.failed is not None:
        return asked.failed
    try:
        return asked.whole()
    except Exception as error:  # too much for one batch, for instance
        return error
