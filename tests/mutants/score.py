"""Run mutants in processes of their own, several at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from tests.mutants.mutants import ROOT, Mutant

UNIT_TESTS = ("link", "sealer", "sink", "site", "stack", "view", "window", "wire", "limits_ticks")


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


def scores(mutants: Iterable[Mutant], seeds: int, workers: int | None = None) -> Iterator[Score]:
    """Each mutant's fate, as it becomes known."""
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        futures = [pool.submit(score, mutant, seeds) for mutant in mutants]
        for future in as_completed(futures):
            yield future.result()


def score(mutant: Mutant, seeds: int) -> Score:
    command = [sys.executable, "-m", "tests.mutants.one", mutant.name, str(seeds)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{mutant.name}: {result.stderr}")
    answer = json.loads(result.stdout.splitlines()[-1])
    return Score(mutant, answer["seed"], answer["how"])


def killed_by_unit_tests(mutant: Mutant, *names: str) -> str:
    """The unit test that fails first with the bug in place, or nothing."""
    files = [f"tests/unit/test_{name}.py" for name in names or UNIT_TESTS]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "tests.mutants.plugin", *files]
    environment = {**os.environ, "NARROWS_MUTANT": mutant.name}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split("::", 1)[-1] if failed else ""
