"""One more algorithm is one more entry of ``planner.algorithms``: planner, costs, help and pages know it then."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.algorithms import SPECS, Algorithm, CopyKind
from planner.step_stats import CarryStats, JoinStats, KeysStats
from planner.traffic import Sizes, StepLoad

ROOT = Path(__file__).resolve().parents[2]

_MEMBER = '    SM_D2 = "SM-D2"\n'
_COPY = '    KEYS = "keys"\n'
_COPIES_END = "    CopyKind.KEYS: CopySpec(keys_sync, tuples=False, blind=True),\n"
_TABLE_END = "}\n\n#: What can join streams"
_ENTRY = """\
    Algorithm.SM_X: AlgorithmSpec(
        at_source=False,
        copy=CopyKind.HINT,
        needs_key=True,
        messages_max=1,
        cpu_s=1e-6,
        traffic=lambda load: Traffic(((Kind.TUPLES, 0.25),), hops_forward=1, turns=(load.stats.carry.batches,)),
        paper=lambda step: step.ship(0.0) / 1e6,
        tree=lambda load: (1.0, 0.0),
        words=Words(
            summary="guess what matches",
            title="guess",
            messages="1: a guess",
            kept_here="H",
            kept_there="W",
            synced="keys",
            wins="one is lucky",
            about="A guesses.",
            crossings=(Crossing(Kind.TUPLES, "a lucky guess", number=1),),
        ),
    ),
"""
#: Run where the seventh is known: prints what each part of the system says.
_ASKED = """
import json
import numpy as np
from bench.planner_cases import wire_case
from cli.help_texts import PLAN_CHOICES
from docs.generate import generated
from planner.alternatives import compared
from planner.choose import Model, Options, choose, estimate_plan
from planner.explain_text import explain_text
from planner.explain_values import explain_dict
from planner.model import Algorithm
from planner.plan_file import read_plan
from planner.plans import checked_plan, describe, forced_plan, parse_algorithm

case = wire_case(np.random.default_rng(3), "chain", 3)
choice = choose(case.query, case.sink, case.statistics)
by_paper = choose(case.query, case.sink, case.statistics, Options(Model.PAPER))
forced = checked_plan(forced_plan(case.query, case.sink, parse_algorithm("sm-x", case.query)))
others = compared(choice)
text = json.dumps(explain_dict(choice, others))
print(json.dumps({
    "chosen": describe(choice.plan),
    "by_paper": describe(by_paper.plan),
    "tree": str(compared(choice).tree),
    "explained": explain_text(choice, others),
    "values": text,
    "read_back": describe(read_plan(text, case.query, case.sink)),
    "replicas": [str(each.replica) for each in estimate_plan(forced, case.statistics).replicas],
    "help": PLAN_CHOICES,
    "pages": {path.name: text for path, text in generated().items()},
}))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a copy of the system says in which one file was changed."""
    folder = tmp_path_factory.mktemp("seventh")
    skipped = shutil.ignore_patterns("__pycache__", "*.png", "*.md.bak")
    for package in ("planner", "node", "cli", "docs", "bench"):
        shutil.copytree(ROOT / package, folder / package, ignore=skipped)
    shutil.copy(ROOT / "README.md", folder)
    path = folder / "planner" / "algorithms.py"
    text = path.read_text()
    hint = "    CopyKind.HINT: CopySpec(lambda load: ((Kind.SYNC, 0.01 * load.rate),)),\n"
    for place, written in (
        (_MEMBER, _MEMBER + '    SM_X = "SM-X"\n'),
        (_COPY, _COPY + '    HINT = "hint"\n'),
        (_COPIES_END, _COPIES_END + hint),
        (_TABLE_END, _ENTRY + _TABLE_END),
    ):
        assert text.count(place) == 1
        text = text.replace(place, written)
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", _ASKED]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_planned_with_and_explained(said: Any) -> None:
    assert "by SM-X" in said["chosen"]
    assert "by SM-X" in said["by_paper"]
    assert "SM-X" in said["tree"]
    assert said["read_back"] == said["chosen"]
    assert any(line.split()[-1] == "SM-X" for line in said["explained"].splitlines() if line.startswith("bytes, by"))
    assert '"algorithm": "SM-X"' in said["values"]
    assert any(text.startswith("hint copy of") for text in said["replicas"])


def test_help_and_pages_have_it(said: Any) -> None:
    assert "  SM-X   guess what matches, join there" in said["help"]
    pages = said["pages"]
    assert "| `SM-X` | guess what matches | there |" in pages["README.md"]
    assert "| [SM-X](#sm-x-guess) | 1: a guess | H | W | keys | B | one is lucky |" in pages["algorithms.md"]
    assert "## SM-X: guess\n" in pages["algorithms.md"]
    assert "a lucky guess" in pages["sm-x.svg"]


def test_every_algorithm_and_every_kind_of_copy_is_described() -> None:
    assert list(SPECS) == list(Algorithm)
    assert all(kind.spec for kind in CopyKind)
    assert {spec.copy for spec in SPECS.values()} == {None, *CopyKind}


@pytest.mark.parametrize("algorithm", Algorithm)
@pytest.mark.parametrize("fetched", [0.0, 4.0, 1e9])
def test_a_walk_is_not_expected_to_wait_for_more_messages_than_said(algorithm: Algorithm, fetched: float) -> None:
    stats = JoinStats(CarryStats(50.0, 50.0, 10.0), 40.0, 10.0, 30.0, 0.5, 0.6, 60.0, 0.2, 0.3, fetched)
    load = StepLoad(stats, Sizes(30.0, 4.0, 25.0, 30.0, 5.0, 5.0), 100.0, KeysStats(200.0, 20.0), 0.1)
    traffic = algorithm.spec.traffic(load)
    assert 1 <= traffic.hops_forward + traffic.hops_backward <= algorithm.spec.messages_max
