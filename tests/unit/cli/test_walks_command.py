"""``narrows walks``: who is under way, at which step, what it waits for and how long; nothing is said in words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from cli.cluster_file import load_cluster
from cli.main import main
from cli.show.json_out import walks_json
from cli.show.walks import Found, show_walks
from node.core.queries.shape import shape_of
from node.core.queries.waiting import Asked, Sought, Stage, Waiting, Walk
from node.core.streams.ticks import TICK_END, Span
from node.io.control import Control
from node.io.reports.walk_report import walk_rows
from node.rpc import control_pb2 as pb
from planner.model.query import Algorithm, Plan, Step, StreamInfo
from planner.model.query import Sequence as Steps
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
CATALOGUE = {
    name: StreamInfo(name, site, SCHEMA, "ts", TimeUnit.MS)
    for name, site in (("orders", "ash"), ("payments", "bow"), ("refunds", "cam"))
}
QUERY = parse_query(
    "SELECT o.k FROM orders [RANGE 1 S] AS o JOIN payments [RANGE 1 S] AS p ON o.k = p.k "
    "JOIN refunds [RANGE 1 S] AS refunds ON p.k = refunds.k",
    CATALOGUE,
)
PLAN = Plan(
    QUERY,
    "ash",
    (
        Steps("o", (Step("p", Algorithm.SM_D2), Step("refunds", Algorithm.SM_S1))),
        Steps("p", (Step("o", Algorithm.SP_D), Step("refunds", Algorithm.SP_D))),
        Steps("refunds", (Step("p", Algorithm.SP_D), Step("o", Algorithm.SP_D))),
    ),
)
ROWS = pa.RecordBatch.from_pydict({"ts": [1, 2, 3], "o.k": [1, 1, 2]})
NO_ROWS = ROWS.slice(0, 0)
NOW_US = 10_000_000


def waiting(query_id: str, step: int, stage: Stage, since_us: int, detail: Asked | Sought | None = None) -> Waiting:
    rows = NO_ROWS if isinstance(detail, Sought) else ROWS
    walk = Walk(query_id, 1, "o", Span(70, 71 if step else TICK_END), 0, step, rows)
    return Waiting(walk, stage, not isinstance(detail, Sought), f"what {stage} does", since_us, detail)


ASKED = Asked(2, np.array([0, 0, 1]))
SOUGHT = Sought(pa.RecordBatch.from_pydict({"k": [1, 2, 3, 4]}), 0, 9, 0)
UNDER_WAY = (
    waiting("ash-1", 0, Stage.ANSWER, 9_000_000, ASKED),
    waiting("ash-2", 1, Stage.FIND, 4_500_000, SOUGHT),
    waiting("ash-9", 0, Stage.ENGINE, 1_000_000),
)


def found(query_id: str = "", under_way: Sequence[Waiting] = UNDER_WAY) -> list[pb.WalkStatus]:
    run = SimpleNamespace(plan=PLAN, shape=shape_of(PLAN))
    site = SimpleNamespace(waiting=lambda: list(under_way), runs={"ash-1": run, "ash-2": run})
    return walk_rows(cast("Any", site), query_id, NOW_US)


def test_a_walk_says_where_in_its_plan_it_stands_and_what_it_waits_for() -> None:
    assert found("ash-1") == [
        pb.WalkStatus(
            query_id="ash-1",
            generation=1,
            head="o",
            first_tick=70,
            end_tick=TICK_END,
            rows=3,
            keys=2,
            step=0,
            steps=2,
            alias="p",
            stream="payments",
            algorithm="SM-D2",
            stage="answer",
            asked=False,
            cause="what answer does",
            seconds=1.0,
        )
    ]


def test_who_has_waited_longest_comes_first_and_what_is_left_of_an_ended_query_is_no_walk() -> None:
    assert [(walk.query_id, walk.seconds) for walk in found()] == [("ash-2", 5.5), ("ash-1", 1.0)]
    assert found("ash-9") == []


def test_a_question_of_another_site_has_keys_and_no_rows_here() -> None:
    (walk,) = found("ash-2")
    assert (walk.asked, walk.keys, walk.rows, walk.stream, walk.algorithm) == (True, 4, 0, "refunds", "SM-S1")


def test_the_daemon_answers_for_one_query_or_for_all() -> None:
    run = SimpleNamespace(plan=PLAN, shape=shape_of(PLAN))
    site = SimpleNamespace(waiting=lambda: list(UNDER_WAY), runs={"ash-1": run, "ash-2": run})
    runner = SimpleNamespace(stack=SimpleNamespace(site=site), clock=SimpleNamespace(now_us=lambda: NOW_US))
    asked = cast("Any", SimpleNamespace(_runner=runner))
    for query_id in ("", "ash-1"):
        reply = asyncio.run(Control.Walks(asked, pb.WalksRequest(query_id=query_id), cast("Any", None)))
        assert list(reply.walks) == found(query_id)


# What people see.


def shown(answers: Found, query_id: str = "") -> list[str]:
    console = Console(width=80, force_terminal=False)
    with console.capture() as capture:
        show_walks(console, 100, answers, query_id)
    return capture.get().splitlines()


def test_each_walk_is_told_site_by_site_within_80_columns() -> None:
    lines = shown({"ash": found(), "bow": [], "cam": "site cam requires a running daemon; nobody answers"})
    assert lines == [
        "ash: 2 under way",
        "  ash-2 generation 1, batch of o, at another site, which asks about 4 keys",
        "    event time 1970-01-01 00:00:07.000 to 1970-01-01 00:00:07.100",
        "    step 2 of 2: refunds by SM-S1",
        "    waits 5.5 s for what find does (find)",
        "  ash-1 generation 1, batch of o, 3 rows",
        "    event time 1970-01-01 00:00:07.000 to end",
        "    step 1 of 2: payments AS p by SM-D2",
        "    waits 1.0 s for what answer does (answer)",
        "",
        "cam",
        "  site cam requires a running daemon; nobody answers",
        "",
    ]
    assert max(map(len, lines)) <= 80


def test_that_nothing_is_under_way_is_said_but_not_of_a_site_that_does_not_answer() -> None:
    assert shown({"ash": [], "bow": []}) == ["no walk is under way at ash, bow"]
    assert shown({"ash": []}, "ash-1") == ["no walk of ash-1 is under way at ash"]
    assert shown({"ash": [], "bow": "nobody answers"}) == ["bow", "  nobody answers", ""]


# The command.


def test_scripts_get_every_field_and_who_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('tau = "1s"\n[site.ash]\nlisten = "127.0.0.1:1"\n[site.bow]\nlisten = "127.0.0.1:2"\n')
    said = json.loads(walks_json(load_cluster(path), {"ash": found("ash-1"), "bow": "nobody answers"}))
    assert said["tau_ms"] == 1000
    assert said["sites"]["bow"] == {"answers": False, "reason": "nobody answers"}
    assert said["sites"]["ash"]["answers"] is True
    (walk,) = said["sites"]["ash"]["walks"]
    assert set(walk) == {field.name for field in pb.WalkStatus.DESCRIPTOR.fields}
    assert (walk["rows"], walk["stage"], walk["asked"], walk["seconds"]) == (3, "answer", False, 1.0)


def test_of_a_cluster_that_does_not_run_each_site_that_was_asked_is_told_and_the_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('tau = "1s"\n[site.ash]\nlisten = "127.0.0.1:1"\n[site.bow]\nlisten = "127.0.0.1:2"\n')
    assert main(["walks", "--config", str(path)]) == 1
    said = capsys.readouterr().out
    assert "site ash requires a running daemon" in said
    assert "site bow requires a running daemon" in said
    assert main(["walks", "--config", str(path), "--at", "bow", "--json"]) == 1
    assert list(json.loads(capsys.readouterr().out)["sites"]) == ["bow"]
    assert main(["walks", "--config", str(path), "--at", "bwo"]) == 2
    assert 'did you mean "bow"' in capsys.readouterr().err
