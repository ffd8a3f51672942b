"""Records of queries survive being bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.effects import QueryState
from node.core.errors import PeerProtocolError
from node.core.links.messages import Drop, Prepare
from node.core.query_records import DoneRecord, HomeRecord, PinRecord, Record, RecordKind, Recovered
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.rpc import records_pb2
from node.wire.messages import encode_message
from node.wire.records import record_out, recovered
from planner.model.beginning import BeginAt, Beginning
from planner.model.query import Algorithm
from tests.examples import examples
from tests.unit.sites import QUERY, Cluster

TICK = st.one_of(st.just(TICK_MIN), st.just(TICK_END), st.integers(-(2**40), 2**40))
NAME = st.text(min_size=1, max_size=12)


def prepare_of(query_id: str) -> Prepare:
    cluster = Cluster()
    plan = cluster.plan("cam", Algorithm.SM_D1)
    beginning = Beginning(BeginAt.TIME, -7, looks_back=True)
    return Prepare(query_id, QUERY, "cam", plan.sequences, tuple(cluster.infos.values()), beginning=beginning)


PREPARE = prepare_of("q1")
RECORDS = st.one_of(
    st.builds(
        HomeRecord,
        st.just("q1"),
        st.just(PREPARE),
        st.sampled_from(QueryState),
        st.text(),
        st.one_of(st.none(), TICK),
        st.lists(NAME, max_size=2).map(tuple),
        st.lists(st.tuples(NAME, TICK), max_size=3).map(tuple),
        st.one_of(st.none(), TICK),
    ),
    st.builds(DoneRecord, NAME, st.lists(st.tuples(NAME, TICK), max_size=4).map(tuple)),
    st.builds(
        PinRecord,
        NAME,
        NAME,
        st.lists(NAME, max_size=3).map(tuple),
        st.lists(st.tuples(NAME, TICK), max_size=3).map(tuple),
    ),
)


@examples(100)
@given(RECORDS)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    put = record_out(record)
    assert put.key == record.query_id
    found = recovered({put.kind: {put.key: put.value}}, {})
    assert [*found.homes, *found.done, *found.pins] == [record]


def test_all_of_a_site_come_back_each_under_its_kind() -> None:
    records: list[Record] = [
        HomeRecord("q1", PREPARE, QueryState.RUNNING, "", 4),
        DoneRecord("q1", (("a", 5), ("b", TICK_MIN))),
        PinRecord("q2", "bow", ("l",)),
    ]
    kept: dict[str, dict[str, bytes]] = {}
    for put in map(record_out, records):
        kept.setdefault(put.kind, {})[put.key] = put.value
    walks = {"q1": [("a", Span(5, 7))]}
    home, done, pin = records
    assert recovered(kept, walks) == Recovered((home,), (done,), (pin,), {"q1": (("a", Span(5, 7)),)})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", RecordKind)
def test_bytes_that_are_no_record_are_an_error(kind: RecordKind) -> None:
    with pytest.raises(PeerProtocolError, match="the record of"):
        recovered({kind: {"q1": b"\xff\xff"}}, {})


def test_a_record_of_a_query_requires_its_plan() -> None:
    wrong = records_pb2.HomeRecord(prepare=encode_message(Drop("q1")).payload, state=QueryState.RUNNING)
    with pytest.raises(PeerProtocolError, match="query q1 requires its plan; got Drop"):
        recovered({RecordKind.HOME: {"q1": wrong.SerializeToString()}}, {})
