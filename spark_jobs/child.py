"""The process that Spark's driver runs in: takes requests of the daemon, one JSON line each, and replies.

It ends when its standard input does, so it cannot outlive the daemon; the JVM ends with it in the same way, and is
killed if it does not. The child ends too when the JVM dies: the daemon then starts another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark import RDD
from pyspark.sql import SparkSession

from spark_jobs.engine.worker import Task
from spark_jobs.session import build_session
from spark_jobs.source.reading import Sources

JVM_DIED = 3
_JVM_GRACE_S = 5.0
#: Requests that are served at the same time: jobs, and what sources ask.
_THREADS = 8


class Child:
    """Answers requests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spark: SparkSession | None = None
        self._jobs: RDD[int] | None = None
        self._jvm: subprocess.Popen[bytes] | None = None
        self._do: dict[str, Callable[..., dict[str, Any]]] = {
            "start": self.start,
            "jobs": self.jobs,
            "run": self.run,
        }
        sources = Sources(lambda: self.spark)
        self._do |= {"source_check": sources.check, "source_start": sources.start, "source_state": sources.state}

    @property
    def spark(self) -> SparkSession:
        assert self._spark is not None, "start comes first"
        return self._spark

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request; what goes wrong is part of it."""
        number, what = request.pop("id"), request.pop("do")
        try:
            return {"id": number, **self._do[what](**request)}
        except Exception as error:  # the daemon decides what it means
            self._end_if_dead()
            return {"id": number, "failed": first_lines(error)}

    def start(self, master: str, options: dict[str, str]) -> dict[str, Any]:
        """Start Spark."""
        self._spark = build_session(master, options, self._folder)
        context = self._spark.sparkContext
        assert context._gateway is not None
        self._jvm = context._gateway.proc
        threading.Thread(target=_end_with_the_jvm, args=(self._jvm,), daemon=True).start()
        return {"parallelism": context.defaultParallelism, "version": self._spark.version}

    def jobs(self, address: str | list[Any], secret: str, partitions: int) -> dict[str, Any]:
        """Build the one job that is run again and again."""
        where = address if isinstance(address, str) else (str(address[0]), int(address[1]))
        tasks = self.spark.sparkContext.parallelize(range(partitions), partitions)
        self._jobs = tasks.mapPartitions(Task(where, bytes.fromhex(secret)))
        return {}

    def run(self) -> dict[str, Any]:
        """Run it."""
        assert self._jobs is not None, "jobs comes first"
        # Counted in the JVM: to collect the tasks' results would open a socket for every job.
        self._jobs._jrdd.count()
        return {}

    def end(self) -> None:
        """The JVM sees its own standard input end and leaves; if it hangs, it is killed. So this ends too."""
        if self._jvm is not None:
            assert self._jvm.stdin is not None
            self._jvm.stdin.close()
            try:
                self._jvm.wait(_JVM_GRACE_S)
            except subprocess.TimeoutExpired:
                self._jvm.kill()
        os._exit(0)

    def _end_if_dead(self) -> None:
        """A Spark that cannot say that it is running will not run again: the JVM is going, or a cluster cast it off."""
        if self._spark is None:
            return
        try:
            stopped = self._spark.sparkContext._jsc.sc().isStopped()
        except Exception:  # whatever it is, it is no answer
            stopped = True
        if stopped:
            os._exit(JVM_DIED)


def first_lines(error: Exception) -> str:
    """What went wrong, without the JVM's stack."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith("\tat ")]
    return f"{type(error).__name__}: " + " | ".join(lines[:12])


def _end_with_the_jvm(jvm: Any) -> None:
    jvm.wait()
    os._exit(JVM_DIED)


def main() -> None:
    """Serve until standard input ends."""
    # Whatever prints to standard output, the JVM too, must not get between the replies.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    child = Child(Path(sys.argv[1]))
    writing = threading.Lock()

    def serve(request: dict[str, Any]) -> None:
        reply = json.dumps(child.answer(request))
        with writing:
            replies.write(reply + "\n")

    with ThreadPoolExecutor(_THREADS) as pool:
        for line in sys.stdin:
            pool.submit(serve, json.loads(line))
        child.end()


if __name__ == "__main__":
    main()
