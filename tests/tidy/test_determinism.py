"""The pure packages are deterministic, as far as their text can show it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.tidy.determinism import problems_in

PURE = [
    *sorted((ROOT / "planner").rglob("*.py")),
    *sorted((ROOT / "node" / "core").rglob("*.py")),
    *sorted((ROOT / "node" / "engine").rglob("*.py")),
    *sorted((ROOT / "node" / "wire").rglob("*.py")),
    ROOT / "node" / "codec.py",
    ROOT / "node" / "stack.py",
]


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(ROOT)))
def test_pure_code_reads_no_clock_and_depends_on_no_set_order(path: Path) -> None:
    assert problems_in(path.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "x = hash('a')",
        "for a in {1, 2}: pass",
        "x = [a for a in set(b)]",
        "x = list(set(b))",
        "x = tuple({a for a in b})",
        "x = ','.join({'a'})",
        "x = [*{1, 2}]",
        "import datetime\nx = datetime.datetime.now()",
        "x: set[int] = set()",
        "for a in set(b) | c: pass",
        "print(1)",
        "open('f')",
    ],
)
def test_the_check_sees_what_it_is_for(planted: str) -> None:
    assert problems_in(planted)


def test_sorting_a_set_is_fine() -> None:
    assert problems_in("x = sorted({1, 2})\ny = 1 in {1, 2}") == []


def test_a_simulation_tells_the_same_story_under_another_hash_seed() -> None:
    command = [sys.executable, "-m", "tests.sim", "--seed", "11"]
    stories = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        stories.append(subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True).stdout)
    assert stories[0] == stories[1]
