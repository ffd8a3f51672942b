"""What follows a record waits for it; order is kept; what comes before waits for nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from node.core.effects import BlamePeer, WriteRecords
from node.core.records import Put
from node.io.barrier import Barrier
from node.stack import Output
from tests.examples import examples


def output(number: int) -> BlamePeer:
    return BlamePeer("oslo", str(number))


def record(number: int) -> WriteRecords:
    return WriteRecords((Put("pin", str(number), b""),))


class Disk:
    """What is performed, and what is handed to the disk."""

    def __init__(self) -> None:
        self.done: list[Output] = []
        self.handed: list[WriteRecords] = []
        self.barrier = Barrier(self.done.append, self.handed.append)


def test_what_follows_a_record_is_held_until_the_record_is_durable() -> None:
    disk = Disk()
    disk.barrier.put([output(1), record(2), output(3)])
    disk.barrier.put([output(4)])
    assert disk.done == [output(1)]
    assert disk.handed == [record(2)]
    assert disk.barrier.held == 3
    disk.barrier.written(1)
    assert disk.done == [output(1), output(3), output(4)]
    assert disk.barrier.held == 0
    disk.barrier.put([output(5)])
    assert disk.done[-1] == output(5)


def test_records_of_many_turns_are_handed_over_at_once_and_each_releases_what_follows_it() -> None:
    disk = Disk()
    for number in (10, 20, 30):
        disk.barrier.put([record(number), output(number + 1)])
    assert disk.handed == [record(10), record(20), record(30)]
    assert disk.done == []
    disk.barrier.written(2)
    assert disk.done == [output(11), output(21)]
    disk.barrier.written(1)
    assert disk.done == [output(11), output(21), output(31)]


def test_without_a_disk_records_hold_nothing_back() -> None:
    done: list[Output] = []
    Barrier(done.append, None).put([record(1), output(2), record(3)])
    assert done == [output(2)]


@given(st.lists(st.sampled_from(["output", "record", "written"]), max_size=60))
@examples()
def test_order_is_kept_and_nothing_is_done_before_the_records_before_it(moves: list[str]) -> None:
    disk, asked, written = Disk(), list[Output](), 0
    for number, move in enumerate(moves):
        if move == "written":
            if written < len(disk.handed):
                written += 1
                disk.barrier.written(1)
        else:
            asked.append(output(number) if move == "output" else record(number))
            disk.barrier.put(asked[-1:])
        left, may = written, list[Output]()
        for one in asked:
            if isinstance(one, WriteRecords):
                left -= 1
                if left < 0:
                    break
            else:
                may.append(one)
        assert disk.done == may
