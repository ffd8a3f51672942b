"""What is counted: bytes by kind, latency by rows, and tuples that are in no batch."""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.links.link_frames import Kind
from node.io.reports.latency import LatencyHistogram, percentile_us
from node.io.reports.ledger import FRAMING, Ledger, LinkLedger
from node.io.sources.late_files import REASON, LateFiles
from node.storage.errors import DiskFailedError
from planner.algorithms.http2 import framing_bytes
from tests.examples import examples

# -- bytes ------------------------------------------------------------------------------------


def test_bytes_are_counted_under_their_kind_with_framing_apart() -> None:
    ledger = Ledger()
    ledger.count([(Kind.SYNC, 100), (Kind.KEYS, 3), (Kind.SYNC, 10)])
    ledger.count([(Kind.SYNC, 50)])
    ledger.count([(Kind.RESULTS, 1)])
    ledger.count([(Kind.KEY_ANSWERS, 2)])
    assert ledger.bytes_by_kind == {
        "control": 0,
        "keys": 3,
        "key_answers": 2,
        "tuples": 0,
        "sync": 160,
        "results": 1,
        FRAMING: 4 * 14,
    }


def test_frames_that_travel_together_are_framed_once_by_their_sum() -> None:
    ledger = Ledger()
    ledger.count([(Kind.TUPLES, 10_000), (Kind.KEYS, 10_000)])
    assert ledger.bytes_by_kind[FRAMING] == framing_bytes(20_000) == 5 + 2 * 9


@pytest.mark.parametrize(("size", "frames"), [(0, 1), (1, 1), (16 * 1024 - 5, 1), (16 * 1024 - 4, 2), (1 << 20, 65)])
def test_framing_is_one_prefix_and_a_header_for_every_16_kib(size: int, frames: int) -> None:
    assert framing_bytes(size) == 5 + 9 * frames


def test_what_goes_one_way_only_costs_nothing_the_other_way() -> None:
    ledger = LinkLedger()
    for _ in range(3):
        ledger.count_sent([(Kind.TUPLES, 1000)])
    assert ledger.sent.bytes_by_kind["tuples"] == 3000
    assert ledger.sent.bytes_by_kind[FRAMING] == 3 * 14
    assert not any(ledger.received.bytes_by_kind.values())


def test_who_writes_after_having_received_gives_back_window_once_for_all_of_it() -> None:
    ledger, mirrored = LinkLedger(), LinkLedger()
    for came in (True, True, False, False, False, True, False):
        if came:
            ledger.count_received([(Kind.KEYS, 10)])
            mirrored.count_sent([(Kind.KEYS, 10)])
        else:
            ledger.count_sent([(Kind.KEY_ANSWERS, 20)])
            mirrored.count_received([(Kind.KEY_ANSWERS, 20)])
    # The second in a row sometimes gives back a little more; that is estimated.
    assert ledger.sent.bytes_by_kind[FRAMING] == 4 * 14 + 2 * 26 + 5
    assert ledger.received.bytes_by_kind[FRAMING] == 3 * 14 + 1 * 26
    assert mirrored.sent.bytes_by_kind == ledger.received.bytes_by_kind
    assert mirrored.received.bytes_by_kind == ledger.sent.bytes_by_kind


def test_both_ends_of_a_connection_agree_on_what_it_cost() -> None:
    dialled, answered = LinkLedger(), LinkLedger()
    dialled.count_dialled()
    answered.count_answered()
    assert dialled.sent.bytes_by_kind == answered.received.bytes_by_kind
    assert dialled.received.bytes_by_kind == answered.sent.bytes_by_kind


# -- latency ----------------------------------------------------------------------------------


def test_nothing_counted_has_no_percentile() -> None:
    assert percentile_us([], 0.5) is None
    assert percentile_us(LatencyHistogram().buckets(), 0.99) is None


def test_one_latency_is_every_percentile_within_five_percent() -> None:
    histogram = LatencyHistogram()
    histogram.add(1_000, 7)
    for share in (0.01, 0.5, 0.99, 1.0):
        got = percentile_us(histogram.buckets(), share)
        assert got is not None
        assert 1_000 <= got <= 1_050


def test_percentiles_are_weighted_by_rows() -> None:
    histogram = LatencyHistogram()
    histogram.add(100, 99)
    histogram.add(1_000_000, 1)
    buckets = histogram.buckets()
    assert percentile_us(buckets, 0.5) == percentile_us(buckets, 0.99) == pytest.approx(100, rel=0.05)
    assert percentile_us(buckets, 1.0) == pytest.approx(1_000_000, rel=0.05)


def test_a_latency_of_nothing_or_less_counts_as_the_smallest() -> None:
    histogram = LatencyHistogram()
    histogram.add(0, 1)
    histogram.add(-5, 1)
    assert histogram.buckets() == [(1, 2)]


@given(st.lists(st.tuples(st.integers(1, 10**10), st.integers(1, 1000)), min_size=1, max_size=40), st.floats(0.01, 1))
@examples(200)
def test_a_percentile_is_off_by_at_most_five_percent(samples: list[tuple[int, int]], share: float) -> None:
    histogram = LatencyHistogram()
    for latency_us, rows in samples:
        histogram.add(latency_us, rows)
    ordered = sorted(samples)
    seen = list(accumulate(rows for _, rows in ordered))
    exact = next(latency_us for (latency_us, _), rows in zip(ordered, seen, strict=True) if rows >= share * seen[-1])
    got = percentile_us(histogram.buckets(), share)
    assert got is not None
    assert exact * 0.999 - 1 <= got <= exact * 1.051 + 1
    assert sum(rows for _, rows in histogram.buckets()) == sum(rows for _, rows in samples)


def test_the_histogram_stays_small_however_much_it_counts() -> None:
    histogram = LatencyHistogram()
    rng = random.Random(1)
    for _ in range(20_000):
        histogram.add(int(10 ** rng.uniform(0, 9)), 1)
    assert len(histogram.buckets()) < 450


# -- the side file ----------------------------------------------------------------------------


def late_rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(values), "text": [str(value) for value in values]})


def content(path: Path) -> list[dict[str, object]]:
    with pa.ipc.open_stream(path) as reader:
        return reader.read_all().to_pylist()  # type: ignore[no-any-return]


def test_rows_that_are_in_no_batch_are_kept_with_the_reason(tmp_path: Path) -> None:
    late = LateFiles(tmp_path / "late")
    late.write("orders", late_rows(1, 2), "late")
    late.write("orders", late_rows(3), "no event time")
    late.write("payments", late_rows(4), "late")
    late.close()
    assert content(tmp_path / "late" / "orders.arrows") == [
        {"n": 1, "text": "1", REASON: "late"},
        {"n": 2, "text": "2", REASON: "late"},
        {"n": 3, "text": "3", REASON: "no event time"},
    ]
    assert [row["n"] for row in content(tmp_path / "late" / "payments.arrows")] == [4]


def test_nothing_late_makes_no_file(tmp_path: Path) -> None:
    LateFiles(tmp_path / "late").close()
    assert not (tmp_path / "late").exists()


def test_the_file_is_readable_without_being_closed(tmp_path: Path) -> None:
    late = LateFiles(tmp_path)
    late.write("orders", late_rows(1), "late")
    late.write("orders", late_rows(2), "late")
    with pa.ipc.open_stream(tmp_path / "orders.arrows") as reader:
        assert [reader.read_next_batch().column("n").to_pylist() for _ in range(2)] == [[1], [2]]
    late.close()


def test_a_new_life_of_the_daemon_overwrites_nothing(tmp_path: Path) -> None:
    for value in (1, 2, 3):
        late = LateFiles(tmp_path)
        late.write("orders", late_rows(value), "late")
        late.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["orders.1.arrows", "orders.2.arrows", "orders.arrows"]
    assert [content(tmp_path / name)[0]["n"] for name in names] == [2, 3, 1]


def test_no_rows_with_a_reason_are_written_as_none(tmp_path: Path) -> None:
    late = LateFiles(tmp_path)
    late.write("orders", late_rows().cast(late_rows(1).schema), "late")
    late.close()
    assert content(tmp_path / "orders.arrows") == []


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskFailedError, match=r"late_dir .*/file required"):
        LateFiles(tmp_path / "file").write("orders", late_rows(1), "late")
