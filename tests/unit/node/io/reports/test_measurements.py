"""What the sites counted of a query finds its step, its copy or its head."""

from __future__ import annotations

import pyarrow as pa

from node.core.queries.shape import shape_of
from node.io.reports.measurements import measured_of
from node.rpc import control_pb2 as pb
from planner.algorithms.descriptions import CopyKind
from planner.algorithms.kinds import Kind
from planner.cost.estimates import CopyKey
from planner.model.query import Algorithm, Plan, Sequence, Step, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
CATALOGUE = {
    name: StreamInfo(name, site, SCHEMA, "ts", TimeUnit.MS)
    for name, site in zip("abc", ("ash", "bow", "cam"), strict=True)
}
QUERY = parse_query(
    "SELECT a.v FROM a [RANGE 1 S] AS a JOIN b [RANGE 1 S] AS b ON a.k = b.k JOIN c [RANGE 1 S] AS c ON b.k = c.k",
    CATALOGUE,
)
#: a and c both use the copy M of b at ash; b goes to a with a full copy.
PLAN = Plan(
    QUERY,
    "cam",
    (
        Sequence("a", (Step("b", Algorithm.SM_S2), Step("c", Algorithm.SP_D))),
        Sequence("b", (Step("a", Algorithm.SP_S), Step("c", Algorithm.SP_D))),
        Sequence("c", (Step("a", Algorithm.SP_D), Step("b", Algorithm.SM_S2))),
    ),
)
MIXED = CopyKey(CopyKind.MIXED, "b", ("k",), "ash")
FULL = CopyKey(CopyKind.FULL, "a", (), "bow")


def sent(purpose: str, name: str, number: int, peer: str, kind: str, size: int) -> pb.TrafficStatus:
    return pb.TrafficStatus(
        query_id="q",
        purpose=purpose,
        name=name,
        number=number,
        peer=peer,
        kind=kind,
        messages=1,
        bytes=size,
        framing_bytes=1.5,
    )


def test_counts_of_all_sites_are_put_together() -> None:
    mixed, full = (
        next(need.number for need in shape_of(PLAN).needs if need.kind is kind)
        for kind in (CopyKind.MIXED, CopyKind.FULL)
    )
    ash = pb.StatusReply(
        site="ash",
        steps=[
            pb.StepStatus(query_id="q", head="a", step=0, rows=100),
            pb.StepStatus(query_id="q", head="a", step=1, rows=7),
        ],
        traffic=[
            sent("step", "a", 1, "cam", "tuples", 70),
            sent("copy", "", mixed, "bow", "keys", 20),
            sent("copy", "", full, "bow", "sync", 40),
            pb.TrafficStatus(
                query_id="other", purpose="step", name="a", number=1, peer="cam", kind="tuples", bytes=999
            ),
        ],
        views=[pb.ViewStatus(query_id="q", alias="a", rows=100, span_us=3_000_000, ship_all_bytes=11)],
    )
    bow = pb.StatusReply(
        site="bow",
        traffic=[sent("copy", "", mixed, "ash", "sync", 30), sent("results", "b", -1, "cam", "results", 5)],
        views=[pb.ViewStatus(query_id="q", alias="b", rows=9, span_us=4_500_000, ship_all_bytes=22)],
    )
    cam = pb.StatusReply(
        site="cam",
        steps=[pb.StepStatus(query_id="q", head="a", step=2, rows=3)],
        traffic=[sent("control", "", -1, "ash", "control", 2)],
    )
    found = measured_of(PLAN, "q", [ash, bow, cam])
    assert found.seconds == 4.5
    assert found.ship_all_bytes == 33
    step = found.steps["a", 1]
    assert (step.rows_in, step.rows_out, step.nbytes) == (7, 3, 71.5)
    assert (found.steps["a", 0].rows_in, found.steps["a", 0].rows_out) == (100, 7)
    # The fetch is shared by the two steps that use the copy.
    assert found.steps["a", 0].nbytes == found.steps["c", 1].nbytes == (20 + 1.5) / 2
    assert {key: sum(part.nbytes for part in parts) for key, parts in found.copies.items()} == {
        MIXED: 31.5,
        FULL: 41.5,
    }
    assert sum(part.nbytes for part in found.results["b"]) == 6.5
    assert found.results["a"] == ()
    assert [part.kind for part in found.control] == [Kind.CONTROL, Kind.FRAMING]
    assert found.nbytes == 71.5 + 21.5 + 41.5 + 31.5 + 6.5 + 3.5
    assert found.by_link["ash", "bow"] == 21.5 + 41.5
