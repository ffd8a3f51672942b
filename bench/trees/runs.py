"""The plans of a case, and what they send when they run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.sites import BenchError
from bench.trees.cases import TAU_MS, Case
from node.core.planning.profile import Sample, for_the_wire, profile_of
from planner.estimate.statistics import Statistics
from planner.model.plans import plan_dict
from planner.model.query import FRONTIER_POLICY, JoinQuery, KeptJoin, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.search.choice import Costs, Options
from planner.search.trees import TreeCosts, light_sets
from planner.sql.parser import parse_query

SPEED = 12.0


@dataclass(frozen=True)
class Ran:
    """What one run sent, delivered, and kept."""

    nbytes: int
    rows: pa.Table
    #: Rows of streams, and of joins that were kept.
    tuples: int
    kept_rows: int


def chosen(case: Case, folder: Path, storage: str) -> dict[str, Any]:
    """What is chosen if joins may take so much at a site: what explain says, which is a plan file too."""
    config = folder / "explain.toml"
    case.write_cluster(config, storage)
    command = ["explain", "--config", str(config), "--start", "--json", "--speed", str(SPEED), "--at", case.sink]
    found: dict[str, Any] = json.loads(_narrows(case, [*command, case.text]))
    return found


def run(case: Case, plan: object) -> Ran:
    """Run a case by a plan, with daemons of its own."""
    with tempfile.TemporaryDirectory(prefix="narrows-trees-") as name:
        folder = Path(name)
        config, stats, rows, file = (
            folder / each for each in ("cluster.toml", "stats.json", "rows.parquet", "plan.json")
        )
        case.write_cluster(config, "0")
        file.write_text(json.dumps(plan))
        command = ["run", str(config), "--query", case.text, "--at", case.sink, "--plan", str(file), "--quiet"]
        _narrows(case, [*command, "--out", str(rows), "--stats", str(stats), "--speed", str(SPEED)])
        found = json.loads(stats.read_text())
        nbytes = sum(link["bytes"] for link in found["links"])
        tuples = sum(found["streams"][f"s_{alias}"]["rows"] for alias in case.places)
        return Ran(nbytes, pq.read_table(rows), tuples, _kept_rows(found))


def _kept_rows(stats: Mapping[str, Any]) -> int:
    """What walks had after the last step of those that make a kept join."""
    ends = {(way["head"], len(way["steps"])) for join in stats["plan"].get("kept", ()) for way in join["sequences"]}
    return sum(step["rows"] for step in stats["steps"] if (step["head"], step["step"]) in ends)


def _narrows(case: Case, command: Sequence[str]) -> str:
    done = subprocess.run([sys.executable, "-m", "cli.main", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{case.name}: {done.stderr.strip()}\n{case.text}")
    return done.stdout


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether two runs delivered the same, in whatever order."""
    order = [(name, "ascending") for name in one.schema.names]
    return bool(one.sort_by(order).equals(other.sort_by(order)))


# -- forced trees -----------------------------------------------------------------------------


def forced_trees(case: Case, most: int) -> dict[str, dict[str, object]]:
    """Plan files that keep a join, whether that is expected to be worth it or not: the lightest ones.

    Each is kept at the site where that is expected to cost least.
    """
    query = _query(case)
    costs = Costs(query, case.sink, _statistics(case, query), Options(), FRONTIER_POLICY)
    found = {}
    for aliases in light_sets(costs)[:most]:
        places = dict.fromkeys((*(case.places[alias] for alias in aliases), case.sink))
        joins = [KeptJoin("_".join(aliases), aliases, site, ()) for site in places]
        best = min((TreeCosts(costs, (join,)).best() for join in joins), key=lambda estimate: estimate.cost)
        found[f"{' '.join(aliases)} at {best.plan.kept[0].site}"] = plan_dict(best.plan)
    return found


def _query(case: Case) -> JoinQuery:
    infos = {}
    for alias, site in case.places.items():
        infos[f"s_{alias}"] = StreamInfo(f"s_{alias}", site, case.table(alias).schema, "ts", TimeUnit.MS)
    return parse_query(case.text, infos)


def _statistics(case: Case, query: JoinQuery) -> Statistics:
    """What sites would tell the home of whole streams."""
    profiles = {}
    for alias, site in case.places.items():
        (rows,) = case.table(alias).combine_chunks().to_batches()
        profile = profile_of(query, alias, TAU_MS, Sample(rows, rows.column("ts").to_numpy()))
        profiles[alias] = profile if site == case.sink else for_the_wire(profile, 1000 * TAU_MS)
    return Statistics(1000 * TAU_MS, profiles, {})
