"""Whatever dies, rows stay the same: every step is compared with the native engine, which nobody kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from node.core.engine import HIGH, LOW, Append, Op, OpenIndex, OpenTable, Probe
from planner.model.errors import NarrowsError
from spark_jobs.process import SparkProcess
from tests.engines.judge import done
from tests.engines.on_spark import SparkEngines
from tests.engines.processes import descendants, gone, jvms, kill, wait_for, workers
from tests.engines.script import SCHEMA, Pair, Script, cut

#: Spark is started several times in a test.
pytestmark = pytest.mark.timeout(900)
#: How long the random test is; more on request.
STEPS = int(os.environ.get("NARROWS_KILL_STEPS", "12"))
#: More than there are cores, so that partitions change hands without anybody's death too.
PARTITIONS = 5


@pytest.fixture(scope="module")
def engines(spark: SparkProcess, spark_folder: Path) -> Iterator[SparkEngines]:
    made = SparkEngines(spark, spark_folder, partitions=PARTITIONS)
    yield made
    made.close()


@pytest.fixture
def pair(engines: SparkEngines) -> Pair:
    return Pair(engines())


def jvm_of(spark: SparkProcess) -> int:
    (jvm,) = jvms(spark.pid)
    return jvm


def kill_workers(spark: SparkProcess) -> int:
    found = workers(jvm_of(spark))
    for worker in found:
        kill(worker)
    for worker in found:
        wait_for(lambda worker=worker: gone(worker))  # type: ignore[misc]
    return len(found)


def test_partitions_outnumber_cores(pair: Pair) -> None:
    script = Script(1)
    for _ in range(10):
        pair.run(script.step())
    assert pair.rows


def test_workers_killed_between_jobs(spark: SparkProcess, engines: SparkEngines, pair: Pair) -> None:
    script = Script(2)
    for _ in range(4):
        pair.run(script.step())
    for _ in range(3):
        before = engines.engine.catch_ups["rebuilt"]
        assert kill_workers(spark)
        pair.run(script.step())
        assert engines.engine.catch_ups["rebuilt"] > before
        pair.run(script.step())
    assert pair.rows


def test_a_task_that_fails_is_tried_again_by_spark(engines: SparkEngines, pair: Pair) -> None:
    script = Script(3)
    for _ in range(3):
        pair.run(script.step())
        jobs = engines.engine.jobs
        for worker in list(engines.engine._exchange._workers):
            worker.channel.shutdown()
        pair.run(script.step())
        assert engines.engine.jobs == jobs + 1, "the job itself did not fail"


class DuringJob:
    """Does something once, as soon as a task of the next job is at work, and says whether the job was still going."""

    def __init__(self, engines: SparkEngines, act: Callable[[], object]) -> None:
        self._exchange = engines.engine._exchange
        self._act = act
        self._thread = threading.Thread(target=self._run)
        self.acted_in_time = False

    def __enter__(self) -> DuringJob:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        wait_for(lambda: (job := self._exchange._job) is not None and bool(job.taken))
        job = self._exchange._job
        self._act()
        self.acted_in_time = job is not None and not job.done


def everything(ids: list[int]) -> pa.RecordBatch:
    """Carry rows that see every position."""
    count = len(ids)
    return pa.record_batch({"c.id": ids, LOW: pa.array([0] * count), HIGH: pa.array([10**6] * count)})


def heavy(seed: int) -> list[Op]:
    """A question that takes long enough to be interrupted: every row meets every row."""
    rng = random.Random(seed)
    count = 1500
    words = pa.array(rng.choices("abcde", k=count))
    rows = pa.record_batch([pa.array(range(count)), words, pa.array(range(count))], schema=SCHEMA)
    probe = Probe("heavy", (), everything(list(range(count))), (), "w", None, ("c.id", "w.k", "w.id"))
    return [OpenTable("heavy", SCHEMA), OpenIndex("heavy", ()), Append("heavy", rows), probe]


def heavy_answer(engines: SparkEngines) -> None:
    """Asks it again and checks the rows by their sum: there are too many to look at each."""
    *_, probe = heavy(0)
    (answer,) = done(engines.engine.run([probe]))
    count = 1500
    assert answer.num_rows == count * count
    assert sum(answer["w.id"].to_numpy()) == sum(answer["c.id"].to_numpy()) == count * count * (count - 1) // 2


def test_workers_killed_during_a_job(spark: SparkProcess, engines: SparkEngines, pair: Pair) -> None:
    script = Script(4)
    pair.run(script.step())
    done(engines.engine.run(heavy(0)))
    for _ in range(10):
        with DuringJob(engines, lambda: kill_workers(spark)) as during:
            heavy_answer(engines)
        if during.acted_in_time:
            break
    assert during.acted_in_time
    pair.run(script.step())


def test_the_jvm_killed_while_idle_and_during_a_job(spark: SparkProcess, engines: SparkEngines, pair: Pair) -> None:
    script = Script(5)
    for _ in range(4):
        pair.run(script.step())
    before = jvm_of(spark)
    kill(before)
    pair.run(script.step())
    assert jvm_of(spark) != before
    done(engines.engine.run(heavy(0)))
    for _ in range(5):
        # Found before: to look through all processes may take longer than the job.
        victim = jvm_of(spark)
        with DuringJob(engines, lambda victim=victim: kill(victim)) as during:  # type: ignore[misc]
            heavy_answer(engines)
        if during.acted_in_time:
            break
    assert during.acted_in_time
    for _ in range(3):
        pair.run(script.step())
    assert pair.rows


def test_a_jvm_that_hangs_is_ended_and_another_does_the_job(
    spark: SparkProcess, engines: SparkEngines, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(8)
    for _ in range(3):
        pair.run(script.step())
    before, patient = jvm_of(spark), spark.settings

    def start_patiently() -> None:
        spark.settings = patient
        SparkProcess.start(spark)

    monkeypatch.setattr(spark, "start", start_patiently)
    spark.settings = replace(patient, job_timeout_s=2.0)
    os.kill(before, signal.SIGSTOP)
    try:
        pair.run(script.step())
    finally:
        spark.settings = patient
        kill(before)
    assert jvm_of(spark) != before
    pair.run(script.step())
    assert pair.rows


def test_random_kills_change_no_row(spark: SparkProcess, engines: SparkEngines, pair: Pair) -> None:
    """At most one worker dies per job, at any moment of it: so there is progress, whatever the machine's load."""
    rng, script = random.Random(6), Script(6)
    over = threading.Event()
    killed: list[int] = []

    def killer() -> None:
        chance = random.Random(7)
        seen = -1
        while not over.is_set():
            if engines.engine.jobs != seen and (found := workers(jvm_of(spark))):
                seen = engines.engine.jobs
                over.wait(chance.random() * 0.08)
                killed.append(chance.choice(found))
                kill(killed[-1])
            over.wait(0.005)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        for _ in range(STEPS):
            for ops in cut(script.step(), rng.randint(1, 3), rng):
                pair.run(ops)
    finally:
        over.set()
        thread.join()
    assert len(killed) >= STEPS // 4
    assert pair.rows


class Bomb:
    """A condition that ends the worker that unpacks it."""

    args = ()

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (9,)


def test_a_job_that_cannot_be_done_costs_its_questions_and_nothing_else(engines: SparkEngines) -> None:
    engine = engines.engine
    engines()
    done(engine.run([OpenTable("t", SCHEMA), OpenIndex("t", ("id",))]))
    rows = pa.record_batch([pa.array([1, 2]), pa.array(["a", "b"]), pa.array([7, 8])], schema=SCHEMA)
    good = Probe("t", ("id",), everything([7, 8]), ("c.id",), "w", None, ("w.k",))
    bad = replace(good, condition=Bomb())  # type: ignore[arg-type]
    appended, poisoned, again = engine.run([Append("t", rows), bad, Append("t", rows)])
    assert appended is again is None
    assert isinstance(poisoned, NarrowsError)
    (answer,) = done(engine.run([good]))
    assert answer.num_rows == 4


DAEMON = """
import json, sys
from pathlib import Path
import pyarrow as pa
from node.core.engine import HIGH, LOW, POSITION, Append, OpenIndex, OpenTable, Probe
from spark_jobs.engine.spark_engine import SparkEngine
from spark_jobs.process import SparkProcess, SparkSettings

folder = Path(sys.argv[1])
process = SparkProcess(SparkSettings("there"), folder)
process.start()
engine = SparkEngine(process, folder, None, 2)
schema = pa.schema([(POSITION, pa.int64()), ("k", pa.int64())])
rows = pa.record_batch([range(20), range(20)], schema=schema)
carry = pa.record_batch({"c.k": range(20), LOW: [0] * 20, HIGH: [99] * 20})
probe = Probe("t", ("k",), carry, ("c.k",), "w", None, ("w.k",))
*_, answer = engine.run([OpenTable("t", schema), OpenIndex("t", ("k",)), Append("t", rows), probe])
assert answer.num_rows == 20
print(json.dumps(process.pid), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("hangs", [False, True])
def test_a_daemon_that_is_killed_leaves_no_process_behind(tmp_path: Path, hangs: bool) -> None:
    started = [sys.executable, "-c", DAEMON, str(tmp_path)]
    with subprocess.Popen(started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        below: list[int] = []
        try:
            child = json.loads(daemon.stdout.readline())
            below = [child, *descendants(child)]
            assert len(below) >= 4, "the child, the JVM, what forks workers, and a worker"
            if hangs:
                os.kill(jvms(child)[0], signal.SIGSTOP)
            daemon.kill()
            wait_for(lambda: all(gone(pid) for pid in below))
        finally:
            daemon.kill()
            for pid in below:
                kill(pid)
