"""Rows of ticks that are not over are bounded too: reading on is all that could seal them, so the stream fails."""

from __future__ import annotations

from node.core.effects import QueryState
from node.core.limits import Limits
from tests.unit.sites import Cluster

#: Three columns and the event time, of eight bytes each.
ROW_BYTES = 32


def cluster(rows_max: int) -> Cluster:
    limits = Limits(news_us=0, ahead_bytes_max=1, open_bytes_max=rows_max * ROW_BYTES)
    made = Cluster(limits)
    made.issue("cam")
    made.settle()
    return made


def test_a_stream_whose_rows_stay_open_fails_at_the_limit_and_says_how_many() -> None:
    made = cluster(rows_max=100)
    made.arrive("l", *([5] * 60))
    made.settle()
    assert not made.sites["ash"].streams["l"].failed
    made.arrive("l", *([5] * 41))
    made.settle()
    assert made.state is QueryState.FAILED
    assert made.reason == (
        "stream l at ash: required at most 3200 bytes of rows in ticks that are not over; got 101 rows with 3232 "
        "bytes: a shorter lateness or tau makes them fewer"
    )
    stream = made.sites["ash"].streams["l"]
    assert (stream.state, stream.sealer.open_rows, stream.sealer.open_bytes) == ("failed", 0, 0)
    assert "l" not in made.reads, "it is not read on"
    assert made.holds_nothing()


def test_any_number_of_rows_may_pass_as_long_as_few_are_open() -> None:
    made = cluster(rows_max=100)
    for tick in range(20):
        for stream in ("l", "r"):
            made.arrive(stream, *([10 * tick] * 90))
            assert made.sites[made.infos[stream].site].streams[stream].sealer.open_bytes == 90 * ROW_BYTES
        made.settle()
    for stream in ("l", "r"):
        made.arrive(stream, 200, ended=True)
    made.settle()
    assert made.state is QueryState.COMPLETED


def test_what_is_sealed_at_once_is_not_open() -> None:
    made = cluster(rows_max=100)
    made.arrive("l", *([5] * 400), 15)
    assert made.sites["ash"].streams["l"].sealer.open_bytes == ROW_BYTES
