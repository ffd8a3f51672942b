"""``make demo`` as a stranger runs it: in a pipe, stopped half way, and with a wrong result."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from demo.report import longest_text, saved_text
from tests.places import ROOT

END_S_MAX = 600
pytestmark = pytest.mark.timeout(900)

#: The demo with a query that loses a row.
LYING_DEMO = """
import sys
import pyarrow.parquet as pq
import demo.__main__ as demo

true_watch = demo.watch

def watch(console, arguments, log, watched):
    seen = true_watch(console, arguments, log, watched)
    rows = log.parent / "rows.parquet"
    pq.write_table(pq.read_table(rows).slice(1), rows)
    return seen

demo.watch = watch
sys.exit(demo.main())
"""


def start_demo(
    folder: Path, seconds: str, *command: str, engine: str = "native", more: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    environment = {**os.environ, "DEMO_FOLDER": str(folder), "DEMO_SECONDS": seconds, "COLUMNS": "80"}
    # As make demo without ENGINE: on Spark.
    environment |= {"ENGINE": engine if engine == "native" else "", **(more or {})}
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
    began = time.monotonic()
    demo = start_demo(folder, "16", engine=engine)
    out, err = demo.communicate(timeout=END_S_MAX)
    assert (demo.returncode, err) == (0, "")
    looks = [line for line in out.splitlines() if " of 3 sites " in line]
    assert 1 <= len(looks) <= time.monotonic() - began, "whole lines, at most one a second"
    assert "\r" not in out
    assert "\x1b" not in out
    assert "each that should be there is there, once, and no other." in " ".join(out.split())
    assert "virginia - singapore: 214 ms there and back" in out
    assert "% less than shipping every tuple" in out
    assert "head r at singapore" in out, "the plan is explained"
    assert "of the best plan that keeps none" in out, "payments with their refunds are next to nothing"
    assert out.count(" measured ") >= 6, "with what was measured"
    for site in ("frankfurt", "virginia", "singapore"):
        assert (f"  site {site}: starting Spark, master local[2]" in out) == (engine == "spark")
        assert (f"  site {site}: Spark is up" in out) == (engine == "spark")
        assert (f"  site {site}: ready after " in out) == (engine == "spark")
    #: Lines with a path of any length, of a look, which are for logs, and with two sites of long names.
    wide = (str(folder), " of 3 sites ", ", shipped to ")
    assert max(len(line.rstrip()) for line in out.splitlines() if not any(each in line for each in wide)) <= 82


def test_the_demo_claims_no_savings_where_there_are_none() -> None:
    assert saved_text(600, 1_000) == "600 B crossed the links: 40 % less than shipping every tuple (1.0 kB)."
    assert saved_text(1_000, 1_000).startswith("Nothing is saved on so little data")
    assert saved_text(500, 0).startswith("Nothing is saved")
    everything = {("a", "b"): 3_000, ("c", "b"): 100}
    assert "a to b alone would have taken 30 s on that link; this took 20 s" in longest_text(everything, 100.0, 20.0)
    assert longest_text(everything, 100.0, 30.0) == longest_text({}, 100.0, 0.0) == ""


def test_without_toxiproxy_the_demo_says_so_and_goes_on(folder: Path) -> None:
    out, _ = (demo := start_demo(folder, "4", more={"NARROWS_TOXIPROXY": "/nowhere"})).communicate(timeout=END_S_MAX)
    assert demo.returncode == 0
    assert "No emulated network: NARROWS_TOXIPROXY requires" in out
    assert "without the delays of a real network" in out
    assert "each that should be there is there" in " ".join(out.split())


def test_on_a_terminal_the_demo_draws_in_place_and_says_when_rows_are_wrong(folder: Path) -> None:
    """As over ssh: a terminal of 80 columns, of which the demo knows only what the terminal says."""
    master, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    environment |= {"DEMO_FOLDER": str(folder), "DEMO_SECONDS": "10", "ENGINE": "native", "TERM": "xterm-256color"}
    command = [sys.executable, "-c", LYING_DEMO]
    demo = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    said = b""
    # A terminal that nobody has open any more reads as an error.
    with contextlib.suppress(OSError):
        while part := os.read(master, 65536):
            said += part
    os.close(master)
    text = said.decode()
    assert demo.wait(END_S_MAX) == 1, text
    assert "demo: these are not the rows that the oracle expects: " in text
    assert "each that should be there is there" not in text
    assert "Traceback" not in text
    assert text.count("frankfurt > singapore") > 1, "drawn more than once"
    assert "\x1b[1A" in text, "over what was there"
    assert "newest rows" in text
    assert " of 3 sites " not in text


def wait_for_processes(folder: Path, count: int) -> None:
    deadline = time.monotonic() + END_S_MAX
    while len(found := processes_about(folder)) != count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_a_stopped_demo_leaves_nothing_behind(folder: Path) -> None:
    demo = start_demo(folder, "60")
    assert demo.stdout is not None
    while " of 3 sites " not in demo.stdout.readline():
        assert demo.poll() is None, demo.stderr and demo.stderr.read()
    wait_for_processes(folder, 4)  # three daemons and the query, which the demo starts while it shows progress
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=END_S_MAX)
    assert demo.returncode == 130
    assert err == "\ndemo: stopped before the end; nothing is left running\n"


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan", ""])
def test_a_length_that_is_none_is_refused(folder: Path, seconds: str) -> None:
    demo = start_demo(folder, seconds)
    _, err = demo.communicate(timeout=END_S_MAX)
    assert demo.returncode == 1
    assert err == f"demo: DEMO_SECONDS requires a number from 1 to 3600; got {seconds!r}\n"
