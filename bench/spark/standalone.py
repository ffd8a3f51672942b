"""A Spark standalone cluster on loopback, from the jars that come with PySpark: a master and some workers.

    with Standalone(folder, workers=2) as cluster:
        SparkSettings("x", cluster.master, cluster.options)

Everything it starts ends with it, and also with the process that started it, however that ends.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from planner.model.errors import NarrowsError
from spark_jobs.java import check_java, java_path

START_S_MAX = 120.0
STOP_S_MAX = 15.0
_HOST = "127.0.0.1"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
#: A JVM does not notice that nobody wants it any more; this does, because its standard input ends.
_UNTIL_INPUT_ENDS = '"$@" & jvm=$!; cat > /dev/null; kill "$jvm"; wait "$jvm"'


class StandaloneError(NarrowsError):
    """The cluster did not come up."""


class Standalone:
    """The cluster; ``folder`` takes its logs and what its executors write."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1, worker_memory_mb: int = 768) -> None:
        self._folder = folder
        self._workers = workers
        self._cores = cores
        self._memory_mb = worker_memory_mb
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """What an application has to set so that it gets one executor of each worker."""
        return (
            ("spark.executor.cores", str(self._cores)),
            ("spark.cores.max", str(self._cores * self._workers)),
            ("spark.executor.memory", f"{self._memory_mb - 256}m"),
            ("spark.executor.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"),
            ("spark.driver.host", _HOST),
        )

    def __enter__(self) -> Standalone:
        check_java("standalone")
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._launch("master", _MASTER, "--host", _HOST, "--port", "0", "--webui-port", "0")
            self.master = self._wait_for("master", r"Starting Spark master at (spark://\S+)")
            for number in range(self._workers):
                arguments = ["--host", _HOST, "--cores", str(self._cores), "--memory", f"{self._memory_mb}m"]
                arguments += ["--webui-port", "0", "--work-dir", str(self._folder / f"work-{number}")]
                self._launch(f"worker-{number}", _WORKER, *arguments, self.master)
            for number in range(self._workers):
                self._wait_for(f"worker-{number}", r"(Successfully registered with master)")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    def executors(self) -> list[int]:
        """Process ids of the executors that run now."""
        started = descendants([process.pid for process in self._processes])
        return sorted(pid for pid in started if _EXECUTOR in command_of(pid))

    def stop(self) -> None:
        """End all of it, kindly first."""
        started, self._processes = self._processes, []
        for process in started:
            assert process.stdin is not None
            process.stdin.close()
        deadline = time.monotonic() + STOP_S_MAX
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            # Also what a worker that was killed has left of its session.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _launch(self, name: str, main_class: str, *arguments: str) -> None:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        # Workers start executors from SPARK_HOME; nobody's own settings of Spark may get in.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": _HOST, "SPARK_CONF_DIR": str(self._folder)}
        environment |= {"SPARK_LOCAL_DIRS": str(self._folder / "scratch"), "SPARK_SCALA_VERSION": _scala(home)}
        java = [java_path() or "java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [*java, "-cp", f"{self._folder}:{home / 'jars'}/*", main_class, *arguments]
        with self._log(name).open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    ["sh", "-c", _UNTIL_INPUT_ENDS, "sh", *command],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
            )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _wait_for(self, name: str, pattern: str) -> str:
        deadline = time.monotonic() + START_S_MAX
        while True:
            said = self._log(name).read_text(errors="replace")
            if match := re.search(pattern, said):
                return match[1]
            if time.monotonic() > deadline:
                tail = "\n  ".join(said.strip().splitlines()[-10:])
                raise StandaloneError(f"{name} requires to be up within {START_S_MAX:.0f} s; it said:\n  {tail}")
            time.sleep(0.05)


def _scala(home: Path) -> str:
    """The version of Scala that these jars are for; workers refuse to guess it."""
    (core,) = (home / "jars").glob("spark-core_*.jar")
    return core.name.removeprefix("spark-core_").partition("-")[0]


def descendants(pids: list[int]) -> list[int]:
    """All processes below these, from Linux's process table."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found, left = [], list(pids)
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def command_of(pid: int) -> str:
    """The command line of a process; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
