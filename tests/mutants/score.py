"""Run mutants in processes of their own, several at a time.

A failure says something about a mutant only if the system without it passes: so
callers first ask for ``NO_BUG``, on the very same files (``snapshot``).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutants import ROOT, Mutant

UNIT_TESTS = (
    "axis",
    "codec",
    "forgetting",
    "gate",
    "graph",
    "keybook",
    "limits_ticks",
    "link",
    "sealer",
    "sink",
    "site",
    "stack",
    "view",
    "walk",
    "window",
    "wire",
    "replicas",
    "algorithms",
)
NO_BUG = Mutant("none", ())


@dataclass(frozen=True)
class Score:
    """What became of a mutant."""

    mutant: Mutant
    #: The first seed that failed; None if none did.
    seed: int | None
    how: str

    @property
    def killed(self) -> bool:
        return self.seed is not None


def snapshot(folder: Path) -> Path:
    """A copy of everything a run needs, so that edits in the meantime change nothing."""
    for package in ("node", "planner", "tests"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def scores(mutants: Iterable[Mutant], seeds: int, root: Path = ROOT, workers: int | None = None) -> Iterator[Score]:
    """Each mutant's fate, as it becomes known."""
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        futures = [pool.submit(score, mutant, seeds, root) for mutant in mutants]
        for future in as_completed(futures):
            yield future.result()


def score(mutant: Mutant, seeds: int, root: Path = ROOT) -> Score:
    command = [sys.executable, "-m", "tests.mutants.one", mutant.name, str(seeds)]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{mutant.name}: {result.stderr}")
    answer = json.loads(result.stdout.splitlines()[-1])
    assert Path(answer["root"]) == root, f"a mutant requires the files in {root}; it ran those in {answer['root']}"
    return Score(mutant, answer["seed"], answer["how"])


def killed_by_unit_tests(mutant: Mutant, *names: str, root: Path = ROOT) -> str:
    """The unit test that fails first with the bug in place, or nothing."""
    files = [f"tests/unit/test_{name}.py" for name in names or UNIT_TESTS]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "tests.mutants.plugin", *files]
    environment = {**os.environ, "NARROWS_MUTANT": mutant.name}
    result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return ""
    failed = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if not failed:
        raise RuntimeError(f"{mutant.name}: {result.stdout}{result.stderr}")
    return failed[0].split(" - ")[0].split("::", 1)[-1]
