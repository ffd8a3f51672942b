"""Spark in a child process, as the daemon sees it: started, asked, and started again when it dies.

In a process of its own because what PySpark keeps in a process cannot be repaired once its JVM is gone.
Requests and replies are JSON lines; rows do not travel here.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.errors import NarrowsError
from spark_jobs.java import check_java

log = logging.getLogger(__name__)

#: While a request takes longer than this, the log says so now and then.
_SLOW_S = 30.0
_STOP_GRACE_S = 10.0
RESTARTS_MAX = 3
_TAIL_LINES = 15


class SparkError(NarrowsError):
    """Spark could not do what it was asked."""


class SparkDiedError(SparkError):
    """The JVM, or the process it runs under, is gone."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How a site's Spark is started."""

    site: str
    master: str = "local[2]"
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether executors are on this machine and in the JVM that is started."""
        return self.master.startswith("local")


class SparkProcess:
    """One site's Spark. Requests may come from several threads."""

    def __init__(self, settings: SparkSettings, folder: Path) -> None:
        """``folder``: for the log of Spark, and its scratch files."""
        self.settings = settings
        self.parallelism = 0
        self.version = ""
        self._folder = folder
        self._log_path = folder / "spark.log"
        self._child: subprocess.Popen[str] | None = None
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._requests = 0
        self._sending = threading.Lock()
        self._restarting = threading.Lock()
        self._restarts = 0
        #: What has to be said to a Spark that was started again, in order.
        self._after_start: list[Callable[[], object]] = []
        self._stopped = False

    def start(self) -> None:
        """Start it and wait until it can work. Raises NarrowsError that says what is missing."""
        check_java(self.settings.site)
        began = time.monotonic()
        log.info("site %s: starting Spark, master %s; this takes a while", self.settings.site, self.settings.master)
        self._spawn()
        ready = self._request("start", master=self.settings.master, options=dict(self.settings.options))
        self.parallelism, self.version = ready["parallelism"], ready["version"]
        took = time.monotonic() - began
        log.info("site %s: Spark %s is ready after %.1f s", self.settings.site, self.version, took)

    def serve_jobs(self, address: object, secret: bytes, partitions: int) -> None:
        """What the tasks of every job are told; also after Spark was started again."""
        self.on_start(lambda: self._request("jobs", address=address, secret=secret.hex(), partitions=partitions))

    def on_start(self, tell: Callable[[], object]) -> None:
        """Tell Spark something now, and whenever it was started again."""
        tell()
        self._after_start.append(tell)

    def run_job(self) -> None:
        """One job whose tasks take what the exchange offers."""
        self._request("run")
        self._restarts = 0

    def request(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Ask the child something; raises SparkError with its reason, SparkDiedError if it is gone."""
        return self._request(what, **arguments)

    def restart(self) -> None:
        """Start Spark again after it died. Raises SparkError when that does not help."""
        with self._restarting:
            if self._child is not None and self._child.poll() is None:
                return  # somebody else did
            while True:
                self._restarts += 1
                if self._stopped or self._restarts > RESTARTS_MAX:
                    raise SparkError(
                        f"site {self.settings.site}: Spark died {self._restarts} times in a row{self._tail()}"
                    )
                try:
                    self._reap()
                    self.start()
                    for tell in self._after_start:
                        tell()
                except SparkDiedError as error:
                    log.warning("%s", error)
                else:
                    return

    def stop(self) -> None:
        """End it, kindly first."""
        self._stopped = True
        self._reap()

    @property
    def pid(self) -> int:
        """Of the child process."""
        assert self._child is not None
        return self._child.pid

    def _spawn(self) -> None:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYSPARK_PYTHON": sys.executable}
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        with self._log_path.open("ab") as spark_log:
            child = subprocess.Popen(
                [sys.executable, "-m", "spark_jobs.child", str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=spark_log,
                text=True,
                env=environment,
                # A terminal's interrupt goes to the daemon, which stops this in order.
                start_new_session=True,
            )
        self._child = child
        threading.Thread(target=self._listen, args=(child,), name="spark-replies", daemon=True).start()

    def _listen(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            reply = json.loads(line)
            waiting = self._waiting.pop(reply["id"], None)
            if waiting is not None:
                waiting.set_result(reply)
        child.wait()
        with self._sending:
            if child is self._child:
                left, self._waiting = self._waiting, {}
                for waiting in left.values():
                    waiting.set_exception(self._died(child.returncode))

    def _died(self, code: int | None) -> SparkDiedError:
        return SparkDiedError(f"site {self.settings.site}: Spark's process ended with code {code}{self._tail()}")

    def _request(self, what: str, **arguments: Any) -> dict[str, Any]:
        answer: Future[dict[str, Any]] = Future()
        with self._sending:
            child = self._child
            if child is None or child.poll() is not None:
                raise self._died(None if child is None else child.returncode)
            assert child.stdin is not None
            self._requests += 1
            number = self._requests
            self._waiting[number] = answer
            try:
                child.stdin.write(json.dumps({"id": number, "do": what, **arguments}) + "\n")
                child.stdin.flush()
            except OSError:
                self._waiting.pop(number, None)
                raise self._died(child.poll()) from None
        return self._checked(what, self._await(what, answer))

    def _await(self, what: str, answer: Future[dict[str, Any]]) -> Mapping[str, Any]:
        began = time.monotonic()
        while True:
            try:
                return answer.result(_SLOW_S)
            except TimeoutError:
                waited = time.monotonic() - began
                log.warning("site %s: Spark has been at %r for %.0f s", self.settings.site, what, waited)

    def _checked(self, what: str, reply: Mapping[str, Any]) -> dict[str, Any]:
        if "failed" in reply:
            raise SparkError(f"site {self.settings.site}: Spark refused {what!r}: {reply['failed']}")
        return dict(reply)

    def _tail(self) -> str:
        """The end of Spark's own log, for messages."""
        try:
            lines = self._log_path.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return "; its last words:\n  " + "\n  ".join(lines[-_TAIL_LINES:]) if lines else ""

    def _reap(self) -> None:
        child = self._child
        if child is None:
            return
        if child.stdin is not None and not child.stdin.closed:
            with contextlib.suppress(OSError):  # it is gone already
                child.stdin.close()
        try:
            child.wait(_STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
