"""The figures of large runs of the simulator, for the record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.commit import commit
from bench.parts import put_part

RESULTS = Path(__file__).parents[3] / "bench" / "results" / "simulated.md"
TITLE = "What the simulator went through, written by make sim and make crashes with RECORD=1"


def record(name: str, lines: Sequence[str]) -> None:
    """What came of a run takes the place of what the file has under that name."""
    put_part(RESULTS, TITLE, name, "\n".join([f"Commit {commit()}.", "", *lines]))
