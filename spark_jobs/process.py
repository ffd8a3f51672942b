"""Spark in a child process, as the daemon sees it: started, asked, and started again when it dies or hangs.

In a process of its own because what PySpark keeps in a process cannot be repaired once its JVM is gone.
Requests and replies are JSON lines; rows do not travel here.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.model.errors import NarrowsError
from spark_jobs.java import check_java

log = logging.getLogger(__name__)

#: While a request takes longer than this, the log says so now and then.
_SLOW_S = 30.0
#: More than the child gives the JVM.
_STOP_GRACE_S = 10.0
#: To start a session takes seconds; on a cluster that has to find room for it, longer.
_START_S_MAX = 600.0
#: So often it is tried to start Spark again, and then not for a while.
RESTARTS_MAX = 3
_GIVEN_UP_S = 60.0
_TAIL_LINES = 15
_TAIL_BYTES = 1 << 16

Reply = dict[str, Any]


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
    #: A Spark that has not answered a request by then is taken for one that hangs.
    job_timeout_s: float = 600.0

    @property
    def is_local(self) -> bool:
        """Whether executors are on this machine and in the JVM that is started."""
        return self.master.startswith("local")


class _Child:
    """One child process, and what was asked of it. When it ends, everybody who still waits is told."""

    def __init__(self, command: list[str], log_path: Path, died: Callable[[int | None], SparkDiedError]) -> None:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYSPARK_PYTHON": sys.executable}
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        self._died = died
        self._waiting: dict[int, Future[Reply]] = {}
        self._requests = 0
        self._ended = False
        self._changing = threading.Lock()
        with log_path.open("ab") as spark_log:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=spark_log,
                text=True,
                env=environment,
                # A terminal's interrupt goes to the daemon, which stops this in order.
                start_new_session=True,
            )
        self.pid = self._popen.pid
        threading.Thread(target=self._listen, name="spark-replies", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def ask(self, request: Mapping[str, Any]) -> Future[Reply]:
        """Send a request. Raises SparkDiedError if there is nobody any more."""
        answer: Future[Reply] = Future()
        assert self._popen.stdin is not None
        with self._changing:
            if self._ended or not self.alive:
                raise self._died(self._popen.returncode)
            self._requests += 1
            self._waiting[self._requests] = answer
            try:
                self._popen.stdin.write(json.dumps({"id": self._requests, **request}) + "\n")
                self._popen.stdin.flush()
            except (OSError, ValueError):  # the pipe is broken, or closed by ``end``
                del self._waiting[self._requests]
                raise self._died(self._popen.poll()) from None
        return answer

    def end(self) -> None:
        """Kindly first."""
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError):  # it is gone already
            self._popen.stdin.close()
        try:
            self._popen.wait(_STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._popen.wait()

    def kill(self) -> None:
        """At once, and the JVM with it, which may be what hangs: they are a group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _listen(self) -> None:
        assert self._popen.stdout is not None
        with self._popen.stdout as replies:
            for line in replies:
                try:
                    reply = json.loads(line)
                    with self._changing:
                        waiting = self._waiting.pop(reply["id"])
                except (ValueError, KeyError, TypeError):
                    log.warning("a reply of Spark's process must be JSON with the id of a request; got %r", line[:200])
                else:
                    waiting.set_result(reply)
        code = self._popen.wait()
        with self._changing:
            self._ended = True
            left = list(self._waiting.values())
            self._waiting.clear()
        for waiting in left:
            waiting.set_exception(self._died(code))


class SparkProcess:
    """One site's Spark. Requests may come from several threads."""

    def __init__(self, settings: SparkSettings, folder: Path) -> None:
        """``folder``: for the log of Spark, and its scratch files."""
        self.settings = settings
        self.parallelism = 0
        self.version = ""
        self._folder = folder
        self._log_path = folder / "spark.log"
        self._child: _Child | None = None
        #: Taken again by what is said to a Spark that was started again.
        self._restarting = threading.RLock()
        #: When it was last given up to start it again.
        self._given_up_s: float | None = None
        #: What the tasks of jobs are told, and what else has to be said to a Spark that was started again, in order.
        self._serve_jobs: Callable[[], object] | None = None
        self._after_start: list[Callable[[], object]] = []
        self._stopped = False

    def start(self) -> None:
        """Start it and wait until it can work. Raises NarrowsError that says what is missing."""
        check_java(self.settings.site)
        began = time.monotonic()
        log.info("site %s: starting Spark, master %s; this takes a while", self.settings.site, self.settings.master)
        command = [sys.executable, "-m", "spark_jobs.child", str(self._folder)]
        child = self._child = _Child(command, self._log_path, self._died)
        try:
            if self._stopped:
                raise SparkError(f"site {self.settings.site}: Spark is stopped")
            ready = self._request("start", master=self.settings.master, options=dict(self.settings.options))
        except BaseException:
            # What did not come up must not be taken for what did.
            child.end()
            raise
        self.parallelism, self.version = ready["parallelism"], ready["version"]
        took = time.monotonic() - began
        log.info("site %s: Spark %s is ready after %.1f s", self.settings.site, self.version, took)

    def serve_jobs(self, address: object, secret: bytes, partitions: int) -> None:
        """What the tasks of every job are told; also after Spark was started again. It replaces what they were told."""

        def tell() -> object:
            return self._request("jobs", address=address, secret=secret.hex(), partitions=partitions)

        tell()
        self._serve_jobs = tell

    def on_start(self, tell: Callable[[], object]) -> None:
        """Tell Spark something now, and whenever it was started again."""
        tell()
        self._after_start.append(tell)

    def run_job(self) -> None:
        """One job whose tasks take what the exchange offers."""
        self._wait_for_restart()
        self._request("run")

    def request(self, what: str, **arguments: Any) -> Reply:
        """Ask the child something; raises SparkError with its reason, SparkDiedError if it is gone."""
        self._wait_for_restart()
        return self._request(what, **arguments)

    def restart(self) -> None:
        """Start Spark again after it died. Raises SparkError when that does not help.

        After it was given up, a minute passes before it is tried again: each try takes long, and somebody waits.
        """
        with self._restarting:
            if self._child is not None and self._child.alive:
                return  # somebody else did
            now = time.monotonic()
            if self._given_up_s is not None and now - self._given_up_s < _GIVEN_UP_S:
                raise SparkError(f"site {self.settings.site}: Spark is dead, and could not be started again just now")
            reason: NarrowsError | None = None
            for _ in range(RESTARTS_MAX):
                if self._stopped:
                    raise SparkError(f"site {self.settings.site}: Spark is stopped")
                try:
                    self._start_again()
                except NarrowsError as error:
                    log.warning("%s", error)
                    reason = error
                else:
                    self._given_up_s = None
                    return
            self._given_up_s = time.monotonic()
            raise SparkError(
                f"site {self.settings.site}: Spark died and did not come back in {RESTARTS_MAX} tries: {reason}"
            )

    def stop(self) -> None:
        """End it, kindly first. Whoever waits for it is told that it died; it is not started again."""
        self._stopped = True
        # First this: it ends what others wait for, and one of them may be starting it again.
        self._end()
        with self._restarting:
            self._end()

    def _wait_for_restart(self) -> None:
        """A Spark that somebody else starts again must first be told everything: joins and sources share it."""
        with self._restarting:
            pass

    @property
    def pid(self) -> int:
        """Of the child process."""
        assert self._child is not None
        return self._child.pid

    def _start_again(self) -> None:
        self._end()
        self.start()
        try:
            for tell in [*filter(None, [self._serve_jobs]), *self._after_start]:
                tell()
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()

    def _died(self, code: int | None) -> SparkDiedError:
        return SparkDiedError(f"site {self.settings.site}: Spark's process ended with code {code}{self._tail()}")

    def _request(self, what: str, **arguments: Any) -> Reply:
        child = self._child
        if child is None:
            raise SparkDiedError(f"site {self.settings.site}: Spark was asked {what!r} before it was started")
        reply = self._await(what, child, child.ask({"do": what, **arguments}))
        if "failed" in reply:
            raise SparkError(f"site {self.settings.site}: Spark refused {what!r}: {reply['failed']}")
        return reply

    def _await(self, what: str, child: _Child, answer: Future[Reply]) -> Reply:
        """The reply. A Spark that takes far too long is ended, so whoever waits for it is told that it died."""
        began = time.monotonic()
        left_s = most_s = _START_S_MAX if what == "start" else self.settings.job_timeout_s
        while left_s > 0:
            try:
                return answer.result(min(_SLOW_S, left_s))
            except TimeoutError:
                waited = time.monotonic() - began
                left_s = most_s - waited
                log.warning("site %s: Spark has been at %r for %.0f s", self.settings.site, what, waited)
        log.warning("site %s: Spark requires at most %g s for %r; it is ended", self.settings.site, most_s, what)
        child.kill()
        return answer.result()

    def _tail(self) -> str:
        """The end of Spark's own log, for messages."""
        try:
            with self._log_path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return "; its last words:\n  " + "\n  ".join(lines[-_TAIL_LINES:]) if lines else ""
