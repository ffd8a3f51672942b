"""Import rules hold, and each of them would notice if it were broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

PACKAGES = ("planner", "node", "spark_jobs", "netsim", "cli", "demo", "bench", "tests")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--config", ".importlinter", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_import_rules_hold() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", folder)
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "planted", "contract"),
    [
        ("node/core/queries/home/sink.py", "import time", "Pure code"),
        ("node/core/queries/life.py", "import time", "Pure code"),
        ("node/core/arrangements/lease.py", "import os", "Pure code"),
        ("node/core/arrangements/local_tables.py", "import node.core.queries.run", "no query that runs"),
        ("planner/model/query.py", "import random", "Pure code"),
        ("node/engine/native.py", "import logging", "Pure code"),
        ("node/stack.py", "import asyncio", "Pure code"),
        ("node/core/site.py", "import node.wire", "does not know how it is sent"),
        ("node/wire/messages.py", "import node.io.clock", "Packages only look down"),
        ("node/storage/disk_log.py", "import node.io.clock", "The storage knows"),
        ("node/storage/segment.py", "import node.storage.folder", "only through a disk"),
        ("node/storage/record.py", "import os", "only through a disk"),
        ("node/io/results/row_files.py", "import pathlib", "only through a disk"),
        ("node/core/queries/home/sink.py", "import node.core.links.link", "Stages do not know each other"),
        ("node/io/runner.py", "import node.rpc.link_pb2", "see protobuf"),
        ("netsim/state.py", "import spark_jobs.java", "Packages only look down"),
        ("node/config/values.py", "import netsim.profiles", "neither Spark nor the emulated network"),
        ("node/io/runner.py", "import requests", "neither Spark nor the emulated network"),
        ("node/client/follower.py", "import node.core.streams.ticks", "nothing of what a daemon is made of"),
        ("planner/search/choice.py", "import planner.explain.drawing", "what is said about a plan is on top"),
        ("node/core/keys/bits.py", "import node.core.streams.ticks", "know nothing of the protocol"),
        ("node/core/streams/view.py", "import node.core.queries.waiting", "know no query that is installed"),
        ("node/core/planning/survey.py", "import node.core.queries.shape", "know no query that is installed"),
        ("tests/sim/world.py", "import node.io.runner", "none of the real IO"),
        ("tests/sim/disk.py", "import node.storage.folder", "none of the real IO"),
        ("tests/oracle/oracle.py", "import planner.model.query", "shares no code"),
    ],
)
def test_a_planted_violation_is_caught(copied: Path, module: str, planted: str, contract: str) -> None:
    path = copied / module
    before = path.read_text()
    # After the docstring and the __future__ import, which must stay first.
    head, sep, tail = before.partition("from __future__ import annotations\n")
    path.write_text(f"{head}{sep}{planted}  # noqa\n{tail}")
    try:
        result = lint(copied)
    finally:
        path.write_text(before)
    assert result.returncode != 0
    broken = [line for line in result.stdout.splitlines() if line.rstrip().endswith("BROKEN")]
    assert any(contract in line for line in broken), result.stdout
