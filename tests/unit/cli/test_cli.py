"""What the command offers, and what it shows about windows, copies, walks and probes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pyarrow as pa
import pytest
from rich.console import Console

from cli.main import main
from cli.show.tables import show_status
from cli.tasks.stats import run_stats, step_stats, traffic_stats
from node.core.limits import Limits
from node.core.links.causes import Cause, Purpose, Traffic
from node.core.status import CatchingUp, CopyRole, CopyStatus, ProbeCounts, StepRows, TableStatus
from node.io.clock import Clock
from node.io.control import Control
from node.io.planning.plan_desk import PlanDesk
from node.io.reports.engine_report import EngineReport
from node.io.results.issued_queries import Queries
from node.rpc import control_pb2 as pb
from planner.algorithms.descriptions import CopyKind
from planner.model.plans import start_of
from planner.model.query import Algorithm, Policy, PolicyName, StreamInfo
from planner.model.time_unit import TimeUnit
from tests.unit.files import AtOnce

QUERY = "SELECT o.k FROM orders [RANGE 1 S] AS o JOIN payments [ROWS 5] AS p ON o.k = p.k"
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
CATALOGUE = {name: StreamInfo(name, "ash", SCHEMA, "ts", TimeUnit.MS) for name in ("orders", "payments")}
HOLDER = CopyStatus(
    "ash-1",
    "p",
    CopyKind.MIXED,
    CopyRole.HOLDER,
    "bow",
    frontier=20,
    keys=1234,
    tuples=56,
    nbytes=7_800,
    users=("cam-7",),
    stream="payments",
)
OWNER = CopyStatus("ash-0", "o", CopyKind.KEYS, CopyRole.OWNER, "cam", 5, 1, 2, 3, stream="orders")
TABLE = TableStatus("orders#1", "orders", (("k",), ("k", "ts")), 30, 2, ("ash-1", "cam-7"))


@pytest.mark.parametrize("command", ["run", "query"])
def test_help_says_what_each_algorithm_and_policy_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in [*Algorithm, "frontier", "delta", "delta=250ms"]:
        assert [line for line in lines if line.split()[:1] == [name]], f"{name} is not explained"
    assert any(line.strip().startswith("--policy") for line in lines)


# The control service.


class Aborted(Exception):  # noqa: N818 - what gRPC does, not an error of ours
    pass


class Context:
    said: tuple[grpc.StatusCode, str]

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        self.said = (code, text)
        raise Aborted


class FakeRunner:
    """As much of a runner as planning and status need."""

    core_seconds = 0.0
    ignored: Mapping[str, int] = {}
    disk_trouble = ""

    def __init__(self) -> None:
        site = SimpleNamespace(
            name="ash",
            catalogue=CATALOGUE,
            streams={},
            runs={"ash-1": SimpleNamespace(query_id="ash-1")},
            view_counts=list,
            copy_statuses=lambda: [OWNER, HOLDER],
            table_statuses=lambda: [TABLE],
            catching_up=lambda: [CatchingUp("orders", "copy", "bow", ("ash-1",), 30, 40)],
            probe_counts=lambda: [ProbeCounts("ash-1", 250_000, 3, 4)],
            step_rows=lambda: [StepRows("ash-1", "o", 1, 20, 3)],
            arrangements=SimpleNamespace(logged_bytes=0, logs_full=False),
            kept_for=[],
        )
        self.stack = SimpleNamespace(site=site, links={}, traffic=Traffic(), limits=Limits())
        self.stack.traffic.count(Cause("ash-1", Purpose.STEP, "o", 1), "bow", "tuples", 400, 14.0, True)
        self.events: list[Any] = []
        self.clock = Clock()

    def put(self, events: list[Any]) -> None:
        self.events += events


def control(tmp_path: Path) -> tuple[Control, FakeRunner]:
    runner = FakeRunner()
    thread = SimpleNamespace(busy_seconds=0.0)
    nothing = cast("Any", None)
    desk = PlanDesk(cast("Any", runner), nothing)
    queries = Queries("ash", tmp_path, AtOnce())
    engine = cast("Any", SimpleNamespace(rows=lambda _: 5_678, nbytes=lambda _: 91_000))
    made = Control(cast("Any", runner), nothing, cast("Any", thread), engine, queries, desk, lambda: None)
    return made, runner


def issue(tmp_path: Path, **options: Any) -> tuple[pb.IssueReply, Any]:
    made, runner = control(tmp_path)
    reply = asyncio.run(made.Issue(pb.IssueRequest(text=QUERY, **options), cast("Any", Context())))
    return reply, runner.events[0].plan


def test_a_policy_travels_into_the_plan(tmp_path: Path) -> None:
    reply, plan = issue(tmp_path, algorithm="SM-S2", policy="delta=250ms")
    assert plan.policy == Policy(PolicyName.DELTA, 250_000)
    assert plan.sequence("o").steps[0].algorithm is Algorithm.SM_S2
    assert json.loads(reply.plan_json)["policy"] == {"name": "delta", "delta_us": 250_000}
    assert "policy delta=250 ms" in reply.plan_text


def test_without_a_policy_a_query_waits_for_frontiers(tmp_path: Path) -> None:
    assert issue(tmp_path, algorithm="SP-D")[1].policy == Policy(PolicyName.FRONTIER)


def test_a_bad_policy_is_refused_by_the_daemon(tmp_path: Path) -> None:
    made, runner = control(tmp_path)
    context = Context()
    with pytest.raises(Aborted):
        asyncio.run(made.Issue(pb.IssueRequest(text=QUERY, policy="delta=soon"), cast("Any", context)))
    assert context.said[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert "policy delta: required a duration above 0 such as 250ms or 2s" in context.said[1]
    assert runner.events == []


def status(tmp_path: Path) -> pb.StatusReply:
    return asyncio.run(control(tmp_path)[0].Status(pb.Empty(), cast("Any", Context())))


def test_status_holds_windows_copies_and_probes(tmp_path: Path) -> None:
    reply = status(tmp_path)
    assert list(reply.windows) == [
        pb.WindowStatus(
            window="orders#1",
            stream="orders",
            indexes=["k", "k, ts"],
            frontier=30,
            waiting_walks=2,
            rows=5_678,
            nbytes=91_000,
            users=["ash-1", "cam-7"],
        )
    ]
    assert list(reply.catching_up) == [
        pb.CatchingUpStatus(stream="orders", what="copy", peer="bow", queries=["ash-1"], tick=30, goal_tick=40)
    ]
    assert list(reply.copies) == [
        pb.CopyStatus(
            query_id="ash-0",
            alias="o",
            kind="keys",
            role="owner",
            peer="cam",
            frontier=5,
            keys=1,
            tuples=2,
            nbytes=3,
            ended=True,
            stream="orders",
        ),
        pb.CopyStatus(
            query_id="ash-1",
            alias="p",
            kind="mixed",
            role="holder",
            peer="bow",
            frontier=20,
            keys=1234,
            tuples=56,
            nbytes=7_800,
            ended=False,
            users=["cam-7"],
            stream="payments",
        ),
    ]
    assert list(reply.probes) == [pb.ProbeStatus(query_id="ash-1", delta_us=250_000, early=3, late=4)]


# What people see.


def shown(*replies: pb.StatusReply | str, width: int = 200) -> list[str]:
    console = Console(width=width, record=True, quiet=False, file=None, force_terminal=False)
    with console.capture() as capture:
        show_status(console, 100, {f"site{place}": reply for place, reply in enumerate(replies)})
    return capture.get().splitlines()


def cells(lines: list[str], title: str) -> list[list[str]]:
    """Header and rows of the table with that title; nothing if there is none."""
    if title not in [line.strip() for line in lines]:
        return []
    rows = []
    for line in lines[[line.strip() for line in lines].index(title) + 1 :]:
        if line.startswith("└"):
            break
        if line[0] in "│┃":
            rows.append([cell.strip() for cell in line.replace("┃", "│").strip("│").split("│")])
    return rows


def test_status_shows_each_window_once_with_its_indexes_and_all_queries_that_use_it(tmp_path: Path) -> None:
    assert cells(shown(status(tmp_path)), "Windows") == [
        ["site", "window of", "indexed by", "tuples", "size", "sealed to", "walks waiting", "queries"],
        ["site0", "orders", "k; k, ts", "5,678", "91.0 kB", "1970-01-01 00:00:03.000", "2", "ash-1, cam-7"],
    ]
    assert cells(shown(pb.StatusReply()), "Windows") == []


def test_on_a_small_terminal_nothing_of_windows_and_copies_is_cut_away(tmp_path: Path) -> None:
    lines = shown(status(tmp_path), width=80)
    assert max(map(len, lines)) <= 80
    for title, stream, sealed in (("Windows", "orders", "1970-01-0100:00:03.000"), ("Copies", "payments", "02.000")):
        # A cell that does not fit goes on in the next line.
        whole = ["".join(parts) for parts in zip(*cells(lines, title), strict=True)]
        assert any(cell.endswith(stream) for cell in whole)
        assert any(cell.endswith(sealed) for cell in whole)
        assert any(cell.endswith("cam-7") for cell in whole)


def test_status_shows_why_a_site_does_not_answer_and_no_table_without_rows() -> None:
    lines = shown("site site0 requires a running daemon at h:1; nobody answers")
    assert cells(lines, "Sites")[1][:2] == ["site0", "requires a running daemon at h:1; nobody answers"]
    assert [title for title in ("Streams", "Links", "Windows") if title in map(str.strip, lines)] == []


def test_status_shows_what_the_log_of_a_stream_holds() -> None:
    streams = [
        pb.StreamStatus(name="orders", state="reading", logged_rows=3, logged_bytes=1_500),
        pb.StreamStatus(name="payments", state="held"),
    ]
    header, *rows = cells(shown(pb.StatusReply(streams=streams)), "Streams")
    assert [row[header.index("logged")] for row in rows] == ["1.5 kB", ""]


def test_status_shows_the_copies_of_running_queries_with_all_that_use_them(tmp_path: Path) -> None:
    header, *rows = cells(shown(status(tmp_path)), "Copies")
    assert header[:5] == ["site", "copy of", "kind", "half", "other site"]
    assert header[5:] == ["keys", "full tuples", "memory", "sealed to", "queries"]
    sealed = "1970-01-01 00:00:02.000"
    assert rows == [["site0", "payments", "mixed", "holder", "bow", "1,234", "56", "7.8 kB", sealed, "ash-1, cam-7"]]


def test_status_shows_probes_only_under_policy_delta(tmp_path: Path) -> None:
    _, *rows = cells(shown(status(tmp_path)), "Policy delta")
    assert rows == [["site0", "ash-1", "250.0 ms", "3", "4"]]
    frontier = pb.StatusReply(probes=[pb.ProbeStatus(query_id="ash-1")])
    assert cells(shown(frontier), "Policy delta") == []
    assert cells(shown(frontier), "Copies") == []


ON_SPARK = EngineReport("spark", "local[2]", "4.3.0", 1_234, 41.256, 39.0, 5, 1)


def status_on_spark(tmp_path: Path) -> pb.StatusReply:
    made, _ = control(tmp_path)
    made._report._engine_report = lambda: ON_SPARK
    return asyncio.run(made.Status(pb.Empty(), cast("Any", None)))


def test_status_shows_what_runs_the_joins_and_how_each_spark_does(tmp_path: Path) -> None:
    lines = shown(status(tmp_path), status_on_spark(tmp_path))
    header, *rows = cells(lines, "Sites")
    assert [row[header.index("engine")] for row in rows] == ["native", "spark"]
    assert cells(lines, "Spark") == [
        ["site", "master", "version", "jobs", "median job", "last job", "windows rebuilt", "restarts"],
        ["site1", "local[2]", "4.3.0", "1,234", "41.3 ms", "39.0 ms", "5", "1"],
    ]
    assert cells(shown(status(tmp_path)), "Spark") == []


# stats.json.


def stats(**statuses: pb.StatusReply) -> dict[str, Any]:
    info = pb.QueryInfo(query_id="ash-1", state="completed")
    return run_stats("{}", info, 0, 1.0, statuses)


def test_stats_add_up_the_probes_of_all_sites_and_of_this_query_only(tmp_path: Path) -> None:
    other = pb.StatusReply(
        probes=[
            pb.ProbeStatus(query_id="ash-1", delta_us=250_000, early=10, late=20),
            pb.ProbeStatus(query_id="ash-2", delta_us=999_999, early=100, late=200),
        ]
    )
    assert stats(ash=status(tmp_path), bow=other)["probes"] == {"delta_us": 250_000, "early": 13, "late": 24}
    assert stats(ash=pb.StatusReply())["probes"] == {"delta_us": 0, "early": 0, "late": 0}


def test_stats_add_up_what_shipping_everything_would_have_cost_by_all_plans_of_the_query() -> None:
    views = [("ash-1", "o", 30), ("ash-1", "o", 4), ("ash-1", "p", 5), ("ash-2", "o", 100)]
    reply = pb.StatusReply(
        views=[pb.ViewStatus(query_id=query, alias=alias, ship_all_bytes=size) for query, alias, size in views]
    )
    assert stats(ash=reply)["ship_all_bytes"] == {"o": 34, "p": 5}


def test_stats_of_a_query_that_keeps_a_join_have_what_makes_it(tmp_path: Path) -> None:
    plan = json.dumps({"kept": [{"name": "o_p", "aliases": ["o", "p"], "site": "bow", "sequences": []}]})
    inner = "ash-1.o_p@bow"
    views = [("ash-1", "s", 30), ("ash-1", "o_p", 4), (inner, "o", 5), ("ash-2.o_p@bow", "p", 100)]
    reply = pb.StatusReply(
        streams=[pb.StreamStatus(name="orders", rows=10), pb.StreamStatus(name="ash-1.o_p", rows=1_000)],
        views=[pb.ViewStatus(query_id=query, alias=alias, ship_all_bytes=size) for query, alias, size in views],
        steps=[pb.StepStatus(query_id=inner, head="o", step=0, rows=7, walks=1)],
        traffic=[pb.TrafficStatus(query_id=inner, purpose="step", name="o", peer="bow", kind="keys", bytes=50)],
    )
    found = run_stats(plan, pb.QueryInfo(query_id="ash-1", state="completed"), 0, 1.0, {"ash": reply})
    assert found["ship_all_bytes"] == {"s": 30, "o": 5}, "nobody would ship what is made of streams that are shipped"
    assert found["steps"] == [{"head": "o", "step": 0, "rows": 7, "walks": 1}]
    assert [sent["bytes"] for sent in found["sent"]] == [50]
    assert found["tuples_per_second"] == 10.0


def test_stats_hold_the_copies_of_this_query_ended_or_not_also_those_that_another_began(tmp_path: Path) -> None:
    reply = status(tmp_path)
    for copy in reply.copies:
        copy.ended = True
    mine = [
        {
            "site": "ash",
            "alias": "p",
            "stream": "payments",
            "kind": "mixed",
            "half": "holder",
            "other_site": "bow",
            "keys": 1234,
            "tuples": 56,
            "memory_bytes": 7_800,
        }
    ]
    assert stats(ash=reply)["copies"] == mine
    assert run_stats("{}", pb.QueryInfo(query_id="cam-7"), 0, 1.0, {"ash": reply})["copies"] == mine
    assert stats(ash=pb.StatusReply())["copies"] == []


def test_stats_say_what_ran_the_joins_of_each_site(tmp_path: Path) -> None:
    sites = stats(ash=status(tmp_path), bow=status_on_spark(tmp_path))["sites"]
    assert sites["ash"]["engine"] == {"name": "native"}
    assert sites["bow"]["engine"] == {
        "name": "spark",
        "master": "local[2]",
        "version": "4.3.0",
        "jobs": 1_234,
        "job_ms_median": 41.26,
        "job_ms_last": 39.0,
        "windows_rebuilt": 5,
        "restarts": 1,
    }


def test_stats_keep_every_kind_of_byte_also_one_nobody_knows() -> None:
    link = pb.LinkStatus(peer="bow", sent_bytes={"key_answers": 3, "tuples": 4, "novel": 5})
    found = stats(ash=pb.StatusReply(links=[link]))["links"][0]
    assert (found["bytes"], found["bytes_by_kind"]) == (12, {"key_answers": 3, "novel": 5, "tuples": 4})


# Which plan.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--algorithm", "SP-D", "--plan", "auto"), "required --algorithm or --plan, got both: SP-D and auto"),
        (("--plan", "best"), 'required auto, ship-all or a file that ends in .json or .toml, got "best"'),
        (("--plan", "missing.json"), "missing.json"),
        (("--algorithm", "SP-D", "--search", "greedy"), "--search: required a plan that is to be chosen, got SP-D"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "cluster.toml"
    config.write_text('tau = "1s"\n[site.ash]\nlisten = "127.0.0.1:1"\n')
    for command in (["run", str(config), "--query", QUERY], ["query", "--config", str(config), "--at", "ash", QUERY]):
        assert main([*command, *arguments]) == 2
        assert words in capsys.readouterr().err


def test_the_daemon_refuses_two_plans_at_once(tmp_path: Path) -> None:
    made, runner = control(tmp_path)
    context = Context()
    request = pb.IssueRequest(text=QUERY, algorithm="SP-D", plan="ship-all")
    with pytest.raises(Aborted):
        asyncio.run(made.Issue(request, cast("Any", context)))
    assert "an algorithm or a plan, not both" in context.said[1]
    assert runner.events == []


def test_everything_can_be_shipped_to_the_home(tmp_path: Path) -> None:
    _, plan = issue(tmp_path, plan="ship-all")
    assert [start_of(plan, head) for head in plan.query.aliases] == ["ash", "ash"]


def test_stats_say_what_steps_had_and_what_was_sent_for_them(tmp_path: Path) -> None:
    statuses = {"ash": status(tmp_path)}
    assert step_stats(["ash-1"], statuses) == [{"head": "o", "step": 1, "rows": 20, "walks": 3}]
    (sent,) = traffic_stats(["ash-1"], statuses)
    assert sent["for"] == "step"
    assert (sent["name"], sent["number"], sent["from"], sent["to"]) == ("o", 1, "ash", "bow")
    assert (sent["kind"], sent["messages"], sent["bytes"], sent["framing_bytes"]) == ("tuples", 1, 400, 14.0)
    assert traffic_stats(["ash-2"], statuses) == step_stats(["ash-2"], statuses) == []
