"""Who reads the rows of a query.

A client with a pipe that is read as fast, or as slowly, as a scenario wants; one with a name and a file; the home.
"""

from __future__ import annotations

import fcntl
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from node.client import DaemonUnreachableError, NotNowError
from tests.e2e.harness import NARROWS, Background, Daemons, environment, eventually

#: What a pipe holds: as little as possible, so that who does not read is felt soon.
_PIPE_BYTES = 4_096
_CHUNK_BYTES = 65_536
#: A slow reader takes so much, so often.
_TRICKLE_BYTES = 512
_TRICKLE_S = 0.25


class AnyReader(Protocol):
    """What all of them can be told."""

    def alive(self) -> None:
        """Raises AssertionError if it has ended."""

    def detach(self) -> None:
        """Leave a query that goes on, as with Ctrl-C."""

    def end(self, timeout_s: float) -> None:
        """Wait until it has ended, as it should, and all is read."""

    def kill(self) -> None:
        """Make sure that it has ended."""

    def table(self, schema: pa.Schema) -> pa.Table:
        """The rows that came."""


class FileReader:
    """``narrows follow --as NAME --out FILE``."""

    def __init__(self, config: Path, query_id: str, name: str, folder: Path) -> None:
        self._path = folder / f"{query_id}-{name}.parquet"
        words = ("follow", "--config", config, query_id, "--as", name, "--out", self._path)
        self._command = Background(*words, name=f"{query_id}-{name}", folder=folder)
        self._code = 0

    def alive(self) -> None:
        assert self._command.process.poll() is None, self._command.err

    def detach(self) -> None:
        self._code = 130
        self._command.signal(signal.SIGINT)

    def end(self, timeout_s: float) -> None:
        said = self._command.end(timeout_s)
        assert said.code == self._code, f"exit {said.code}\n{said.err}"

    def kill(self) -> None:
        self._command.kill()

    def table(self, schema: pa.Schema) -> pa.Table:
        return pq.read_table(self._path).cast(schema)


class HomeReader:
    """A file that the query's home writes (``query --detach --to FILE``)."""

    def __init__(self, daemons: Daemons, query_id: str, path: Path) -> None:
        self._daemons = daemons
        self._query_id = query_id
        self._path = path

    def alive(self) -> None:
        """It is as alive as its daemon."""

    def detach(self) -> None:
        """Nobody is there who could leave."""

    def end(self, timeout_s: float) -> None:
        def written() -> bool:
            try:
                info = self._daemons.query_info(self._query_id)
            except (DaemonUnreachableError, NotNowError):
                return False  # it was killed, and is on its way
            assert info.state not in ("failed", "dropped"), f"{self._query_id} {info.state}: {info.reason}"
            taken = all(reader.taken == info.rows for reader in info.readers)
            return info.state == "completed" and info.rows > 0 and taken

        eventually("all rows are in the file", written, timeout_s)

    def kill(self) -> None:
        """There is nothing to end."""

    def table(self, schema: pa.Schema) -> pa.Table:
        with pa.ipc.open_stream(self._path) as stream:
            return stream.read_all().cast(schema)


class Reader:
    """``narrows query`` or ``follow`` with ``--format jsonl`` whose output goes through a pipe into a file."""

    def __init__(self, *arguments: str | Path, name: str, folder: Path) -> None:
        self._rows, self._err = folder / f"{name}.jsonl", folder / f"{name}.err"
        command = [*NARROWS, *(str(argument) for argument in arguments), "--format", "jsonl"]
        with self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, env=environment()
            )
        assert self.process.stdout is not None
        fcntl.fcntl(self.process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._code = 0
        self._slow = threading.Event()
        self._thread = threading.Thread(target=self._drain, args=(self.process.stdout,), daemon=True)
        self._thread.start()

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def query_id(self) -> str:
        """As soon as the query is issued."""

        def said() -> str:
            assert self.process.poll() is None or self.err.startswith("query "), self.err
            return self.err.split()[1] if self.err.startswith("query ") and "\n" in self.err else ""

        return eventually("the query is issued", said)

    def alive(self) -> None:
        assert self.process.poll() is None, self.err

    def trickle(self) -> None:
        """Read a few rows a second."""
        self._slow.set()

    def hurry(self) -> None:
        self._slow.clear()

    def stop_reading(self) -> None:
        """The client itself stands still."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def detach(self) -> None:
        self._code = 130
        self.process.send_signal(signal.SIGINT)

    def end(self, timeout_s: float) -> None:
        code = self.process.wait(timeout_s)
        self._thread.join(timeout_s)
        assert code == self._code, f"exit {code}\n{self.err}"

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._slow.clear()
        self._thread.join()

    def table(self, schema: pa.Schema) -> pa.Table:
        if not self._rows.stat().st_size:
            return schema.empty_table()
        options = pa.json.ParseOptions(explicit_schema=schema)
        return pa.json.read_json(self._rows, parse_options=options)

    def _drain(self, pipe: IO[bytes]) -> None:
        with self._rows.open("wb", buffering=0) as rows, pipe:
            while data := pipe.read(_TRICKLE_BYTES if self._slow.is_set() else _CHUNK_BYTES):
                rows.write(data)
                if self._slow.is_set():
                    time.sleep(_TRICKLE_S)
