"""``make demo`` as a stranger runs it: in a pipe, stopped half way, and with a wrong result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.report import saved_text

ROOT = Path(__file__).resolve().parents[2]
END_S_MAX = 280

#: The demo with a query that delivers nothing.
LYING_DEMO = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
import demo.__main__ as demo
from demo.shop import OUTPUTS

def watch(arguments, log, *_):
    kinds = {"id": pa.int64(), "price_cents": pa.int64(), "amount_cents": pa.int64(), "risk_score": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name, _, _ in OUTPUTS])
    pq.write_table(schema.empty_table(), log.parent / "rows.parquet")
    return 0.0

demo.watch = watch
sys.exit(demo.main())
"""


def start_demo(folder: Path, seconds: str, *command: str, engine: str = "native") -> subprocess.Popen[str]:
    environment = {**os.environ, "DEMO_FOLDER": str(folder), "DEMO_SECONDS": seconds, "COLUMNS": "80"}
    # As make demo without ENGINE: on Spark.
    environment |= {"ENGINE": engine if engine == "native" else ""}
    return subprocess.Popen(
        [sys.executable, *(command or ("-m", "demo"))],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_about(folder: Path) -> list[str]:
    """Command lines of running processes that name ``folder``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in text:
            found.append(text)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the demo works; afterwards no process may be left that has to do with it."""
    yield tmp_path / "shop"
    assert processes_about(tmp_path) == []


@pytest.mark.parametrize("engine", ["spark", "native"])
def test_the_demo_delivers_what_the_oracle_expects(folder: Path, engine: str) -> None:
    demo = start_demo(folder, "20", engine=engine)
    out, err = demo.communicate(timeout=END_S_MAX)
    assert (demo.returncode, err) == (0, "")
    assert "The same rows: each that should be there is there, once, and no other." in out
    assert "payments p [RANGE 5 s] @virginia by SM-D1" in " ".join(out.split())
    assert "--algorithm SM-D1" in out
    assert "% less than shipping every tuple" in out
    for site in ("frankfurt", "virginia", "singapore"):
        assert (f"  site {site}: starting Spark, master local[2]" in out) == (engine == "spark")
        assert (f"  site {site}: Spark 4" in out) == (engine == "spark")
    assert max(len(line.rstrip()) for line in out.splitlines() if str(folder) not in line) <= 80


def test_the_demo_claims_no_savings_where_there_are_none() -> None:
    assert saved_text(600, 1_000).startswith("40 % less than shipping every tuple.")
    assert saved_text(1_000, 1_000).startswith("Nothing is saved on so little data")
    assert saved_text(500, 0).startswith("Nothing is saved")


def test_progress_in_a_pipe_is_whole_lines_at_most_one_a_second(folder: Path) -> None:
    began = time.monotonic()
    out, _ = start_demo(folder, "8").communicate(timeout=END_S_MAX)
    lines = [line for line in out.splitlines() if "%  orders" in line]
    assert 1 <= len(lines) <= time.monotonic() - began
    assert "\r" not in out
    assert "\x1b" not in out


def wait_for_processes(folder: Path, count: int) -> None:
    deadline = time.monotonic() + END_S_MAX
    while len(found := processes_about(folder)) != count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_a_stopped_demo_leaves_nothing_behind(folder: Path) -> None:
    demo = start_demo(folder, "60")
    assert demo.stdout is not None
    while "%  orders" not in demo.stdout.readline():
        assert demo.poll() is None
    wait_for_processes(folder, 4)  # three daemons and the query, which the demo starts while it shows progress
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=END_S_MAX)
    assert demo.returncode == 130
    assert err == "\ndemo: stopped before the end; nothing is left running\n"


def test_a_demo_whose_rows_are_wrong_says_so_and_fails(folder: Path) -> None:
    demo = start_demo(folder, "8", "-c", LYING_DEMO)
    out, err = demo.communicate(timeout=END_S_MAX)
    assert demo.returncode == 1
    assert "demo: these are not the rows that the oracle expects: got 0 rows, want" in err
    assert "The same rows" not in out
    assert "Traceback" not in err


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan", ""])
def test_a_length_that_is_none_is_refused(folder: Path, seconds: str) -> None:
    demo = start_demo(folder, seconds)
    _, err = demo.communicate(timeout=END_S_MAX)
    assert demo.returncode == 1
    assert err == f"demo: DEMO_SECONDS requires a number from 1 to 3600; got {seconds!r}\n"
