"""Following a query over restarts of its home: each row once, whoever closes what when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from node.client import Client, DaemonRefusedError, DaemonUnreachableError, MissingRowsError, NotNowError, Patience
from node.client.follower import Follower
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb
from tests.unit.delivery import SCHEMA, Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, keep=False)
    yield made
    made.close()


def numbers(reply: pb.FollowReply) -> list[int]:
    return pa.ipc.read_record_batch(pa.py_buffer(reply.rows), SCHEMA).column(0).to_pylist()  # type: ignore[no-any-return]


def read(follower: Follower, got: list[int], until: int | None = None) -> None:
    """Rows into ``got`` until there are so many, or the query has ended."""
    for reply in follower:
        if reply.rows:
            got += numbers(reply)
            follower.passed(len(numbers(reply)))
        if until is not None and len(got) >= until:
            return
        if reply.HasField("info") and QueryState(reply.info.state).ended:
            return


def test_each_row_comes_once_over_restarts_and_the_query_goes_on(tmp_path: Path) -> None:
    site = Site(tmp_path, keep=False)
    said: list[str] = []
    port, got = site.port, list[int]()
    with Client("cam", site.address, Patience(60, said.append)) as client:
        follower = client.follow("cam-1-1")
        thread = threading.Thread(target=read, args=(follower, got))
        thread.start()
        for life in range(3):
            for number in range(5):
                site.store(life * 5 + number, 1)
            site.close()
            site = Site(tmp_path, keep=False, port=port)
        site.end(QueryState.COMPLETED)
        thread.join(60)
        follower.close()
    assert got == list(range(15))
    site.close()


def test_rows_by_number_and_what_is_taken_wait_for_a_daemon_that_is_away(tmp_path: Path) -> None:
    site = Site(tmp_path, keep=False)
    site.store(0, 5)
    port, run = site.port, site.query.run
    with Client("cam", site.address, Patience(60)) as client:
        extent = client.extent("cam-1-1")
        site.close()
        again: list[Site] = []
        timer = threading.Timer(0.5, lambda: again.append(Site(tmp_path, keep=False, port=port)))
        timer.start()
        assert sum(rows.num_rows for rows in client.rows("cam-1-1", extent.run, 0, 5, ())) == 5
        client.take("cam-1-1", run, 2)
        timer.join()
        assert again[0].query.readers["default"].place == 2
        again[0].close()


def test_without_patience_a_loss_is_an_error(tmp_path: Path) -> None:
    site = Site(tmp_path, keep=False)
    site.store(0, 5)
    with Client("cam", site.address) as client:
        follower, got = client.follow("cam-1-1"), list[int]()
        read(follower, got, until=5)
        site.close()
        with pytest.raises(DaemonUnreachableError):
            list(iter(follower))


def test_a_client_that_comes_back_takes_the_place_of_its_own_lost_connection(site: Site) -> None:
    """The daemon may not have noticed the loss; and another client is not let in."""
    site.store(0, 3)
    follower, got = site.client.follow("cam-1-1"), list[int]()
    read(follower, got, until=3)
    assert site.query.followed
    with Client("cam", site.address) as other, pytest.raises(NotNowError, match="one follower at a time"):
        next(iter(other.follow("cam-1-1")))
    site.store(3, 2)
    read(follower, got, until=5)  # another connection of the same client
    assert got == [0, 1, 2, 3, 4]
    follower.close()


def test_a_new_reader_begins_with_the_oldest_row_that_is_kept(site: Site) -> None:
    site.store(0, 4)
    site.client.take("cam-1-1", site.query.run, 2)
    follower, got = site.client.follow("cam-1-1", "late"), list[int]()
    read(follower, got, until=2)
    assert got == [2, 3]
    follower.close()
    with pytest.raises(DaemonRefusedError, match="a reader's name requires 1 to 64 letters"):
        next(iter(site.client.follow("cam-1-1", "../x")))


def test_a_follower_that_wants_rows_that_are_gone_or_never_were_is_refused(site: Site) -> None:
    site.store(0, 4)
    site.client.take("cam-1-1", site.query.run, 2)
    for wanted in (1, 5):
        follower = site.client.follow("cam-1-1")
        follower._request.begin = wanted
        with pytest.raises(DaemonRefusedError, match=rf"a follower requires row {wanted} on; kept are rows 2 to 3"):
            next(iter(follower))


def test_an_ended_query_whose_rows_are_all_taken_ends_its_follower_at_once(site: Site) -> None:
    site.store(0, 4)
    site.client.take("cam-1-1", site.query.run, 4)
    site.end(QueryState.COMPLETED)
    got: list[int] = []
    read(site.client.follow("cam-1-1"), got)
    assert got == []


def test_a_daemon_that_leaves_rows_out_is_not_believed() -> None:
    replies = [pb.FollowReply(schema=b"x", run="r"), pb.FollowReply(first_row=3, rows=b"y")]

    class Call:
        def __init__(self, _: object) -> None:
            self._replies = iter(replies)

        def __iter__(self) -> Iterator[pb.FollowReply]:
            return self._replies

        def cancel(self) -> None:
            pass

    follower = Follower(Call, "q", "", AssertionError, None)  # type: ignore[arg-type]
    with pytest.raises(MissingRowsError, match="query q: required row 0; got row 3"):
        list(follower)


def test_a_query_that_is_dropped_under_its_follower_says_so_last(site: Site) -> None:
    for first in range(0, 2_000, 4):
        site.store(first, 4)
    follower = site.client.follow("cam-1-1")
    replies = iter(follower)
    next(replies)
    site.end(QueryState.DROPPED, "by somebody")
    site.do(lambda: site.queries.forget("cam-1-1"))
    infos = []
    for reply in replies:
        follower.passed(len(numbers(reply)) if reply.rows else 0)
        infos += [reply.info] if reply.HasField("info") else []
    assert (infos[-1].state, infos[-1].reason) == ("dropped", "by somebody")


def test_a_query_that_its_site_forgot_over_a_restart_is_not_taken_for_one_that_never_was(tmp_path: Path) -> None:
    site = Site(tmp_path / "before", keep=False)
    site.store(0, 3)
    port, got = site.port, list[int]()
    with Client("cam", site.address, Patience(60)) as client:
        follower = client.follow("cam-1-1")
        read(follower, got, until=3)
        site.close()
        again = Site(tmp_path / "after", keep=False, port=port)
        again.do(lambda: again.queries.forget("cam-1-1"))
        said = "cam-1-1 is gone: it was dropped meanwhile, or its site began anew; rows from 3 on are not kept"
        with pytest.raises(MissingRowsError, match=said):
            list(follower)
        again.close()
