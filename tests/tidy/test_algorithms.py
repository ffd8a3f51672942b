"""Single algorithms are named where they are described and where they are done, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planner.model.query import Algorithm
from tests.places import ROOT

DESCRIBED = "planner/algorithms/descriptions.py"
#: The halves that do the work.
DONE = "node/core/algorithms/"
_PACKAGES = ("planner", "node", "cli", "docs", "bench", "demo", "netsim", "spark_jobs")
_NAMED = re.compile("|".join(rf"Algorithm\.{each.name}\b" for each in Algorithm))


def offenders(root: Path) -> list[str]:
    """Modules that name one without being where that belongs."""
    paths = [path for package in _PACKAGES for path in sorted((root / package).rglob("*.py"))]
    named = [path.relative_to(root).as_posix() for path in paths if _NAMED.search(path.read_text())]
    return [name for name in named if name != DESCRIBED and not name.startswith(DONE)]


def test_no_other_module_names_a_single_algorithm() -> None:
    assert offenders(ROOT) == []


@pytest.mark.parametrize("algorithm", Algorithm)
def test_the_check_sees_what_it_is_for(tmp_path: Path, algorithm: Algorithm) -> None:
    (tmp_path / "planner" / "cost").mkdir(parents=True)
    (tmp_path / "planner" / "cost" / "estimates.py").write_text(f"x = y is Algorithm.{algorithm.name}\n")
    assert offenders(tmp_path) == ["planner/cost/estimates.py"]
