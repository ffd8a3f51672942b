"""One more algorithm is one more entry of ``planner.algorithms.descriptions``: planner, help and pages know it then."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from planner.algorithms.descriptions import SPECS, Algorithm, CopyKind
from planner.algorithms.step_stats import CarryStats, JoinStats, KeysStats
from planner.algorithms.traffic import Sizes, StepLoad
from tests.places import ROOT

_MEMBER = '    SM_D2 = "SM-D2"\n'
_COPY = '    KEYS = "keys"\n'
_COPIES_END = "    CopyKind.KEYS: CopySpec(keys_sync, keys_snapshot, tuples=False, blind=True),\n"
_TABLE_END = "}\n\n#: What can join streams"
_ENTRY = """\
    Algorithm.SM_Z: AlgorithmSpec(
        at_source=False,
        copy=CopyKind.HINT,
        needs_key=True,
        messages_max=1,
        cpu_s=1e-6,
        traffic=lambda load: Traffic(((Kind.TUPLES, 0.25),), hops_forward=1, turns=(load.stats.carry.batches,)),
        paper=lambda step: step.ship(0.0) / 1e6,
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
from bench.planner.cases import wire_case
from cli.options.plan import PLAN_CHOICES
from docs.generate import generated
from planner.search.alternatives import compared
from planner.search.choice import Model, Options, choose, estimate_plan
from planner.explain.text import explain_text
from planner.explain.figures import explain_dict
from planner.model.query import Algorithm
from planner.model.plan_file import read_plan
from planner.model.plans import checked_plan, describe, forced_plan, parse_algorithm

case = wire_case(np.random.default_rng(3), "chain", 3)
choice = choose(case.query, case.sink, case.statistics)
keeping = choose(case.query, case.sink, case.statistics, Options(storage_bytes=1e9))
keeping = next((item.estimate for item in keeping.alternatives if item.name == "tree"), keeping.estimate)
by_paper = choose(case.query, case.sink, case.statistics, Options(Model.PAPER))
forced = checked_plan(forced_plan(case.query, case.sink, parse_algorithm("sm-z", case.query)))
others = compared(choice)
text = json.dumps(explain_dict(choice, others))
print(json.dumps({
    "chosen": describe(choice.plan),
    "by_paper": describe(by_paper.plan),
    "tree": describe(keeping.plan),
    "explained": explain_text(choice, others),
    "values": text,
    "read_back": describe(read_plan(text, case.query, case.sink)),
    "copies": [str(each.copy) for each in estimate_plan(forced, case.statistics).copies],
    "help": PLAN_CHOICES,
    "pages": {path.name: text for path, text in generated().items()},
}))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a copy of the system says in which one file was changed."""
    folder = tmp_path_factory.mktemp("seventh")
    skipped = shutil.ignore_patterns("__pycache__", "*.png", "*.md.bak")
    for package in ("planner", "node", "netsim", "cli", "docs", "bench"):
        shutil.copytree(ROOT / package, folder / package, ignore=skipped)
    shutil.copy(ROOT / "README.md", folder)
    path = folder / "planner" / "algorithms" / "descriptions.py"
    text = path.read_text()
    hint = "    CopyKind.HINT: CopySpec(lambda load: ((Kind.SYNC, 0.01 * load.rate),), lambda _: 0.0),\n"
    for place, written in (
        (_MEMBER, _MEMBER + '    SM_Z = "SM-Z"\n'),
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
    assert "by SM-Z" in said["chosen"]
    assert "by SM-Z" in said["by_paper"]
    assert "SM-Z" in said["tree"]
    assert said["read_back"] == said["chosen"]
    assert any(line.split()[-1] == "SM-Z" for line in said["explained"].splitlines() if line.startswith("bytes, by"))
    assert '"algorithm": "SM-Z"' in said["values"]
    assert any(text.startswith("hint copy of") for text in said["copies"])


def test_help_and_pages_have_it(said: Any) -> None:
    assert "  SM-Z   guess what matches, join there" in said["help"]
    pages = said["pages"]
    assert "| `SM-Z` | guess what matches | there |" in pages["README.md"]
    assert "| [SM-Z](#sm-z-guess) | 1: a guess | H | W | keys | B | one is lucky |" in pages["algorithms.md"]
    assert "## SM-Z: guess\n" in pages["algorithms.md"]
    assert "a lucky guess" in pages["sm-z.svg"]


def test_every_algorithm_and_every_kind_of_copy_is_described() -> None:
    assert list(SPECS) == list(Algorithm)
    assert all(kind.spec for kind in CopyKind)
    assert {spec.copy for spec in SPECS.values()} == {None, *CopyKind}


@pytest.mark.parametrize("algorithm", Algorithm)
@pytest.mark.parametrize("fetched", [0.0, 4.0, 1e9])
def test_a_walk_is_not_expected_to_wait_for_more_messages_than_said(algorithm: Algorithm, fetched: float) -> None:
    stats = JoinStats(
        carry=CarryStats(50.0, 50.0, 10.0),
        keys=40.0,
        keys_new=10.0,
        keys_noted=30.0,
        match=0.5,
        match_kept=0.6,
        rows_out=60.0,
        reduced_share=0.2,
        mixed_share=0.3,
        fetched_keys=fetched,
    )
    sizes = Sizes(row_bytes=30.0, key_bytes=4.0, tuple_bytes=25.0, repeated_bytes=30.0, row_batch=5.0, tuple_batch=5.0)
    load = StepLoad(stats, sizes, 100.0, KeysStats(200.0, 20.0), 0.1)
    traffic = algorithm.spec.traffic(load)
    assert 1 <= traffic.hops_forward + traffic.hops_backward <= algorithm.spec.messages_max
