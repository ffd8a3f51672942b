"""The demo's data is what the demo says it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cli.cluster_file import load_cluster, wan_of
from demo.shop import BANDWIDTH, BYTES_PER_S, DEMO_QUERY, EDGES, OUTPUTS, STREAMS, WINDOWS_US, write_shop
from node.io.sources.recordings import check_sources
from planner.model.query import RangeWindow
from planner.sql.parser import parse_query
from tests.oracle.oracle import OracleStream, expected, expected_pairs

PORTS = (7101, 7102, 7103)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop(tmp_path_factory.mktemp("shop"), seconds=60, orders_per_second=100.0, seed=1, ports=PORTS).parent


def test_the_same_arguments_write_the_same_rows(shop: Path, tmp_path: Path) -> None:
    write_shop(tmp_path, seconds=60, orders_per_second=100.0, seed=1, ports=PORTS)
    for name in ("orders", "payments", "refunds"):
        assert pq.read_table(shop / f"{name}.parquet").equals(pq.read_table(tmp_path / f"{name}.parquet"))


def test_every_stream_is_sorted_by_time_and_has_ties(shop: Path) -> None:
    for name in ("orders", "payments", "refunds"):
        gaps = np.diff(np.asarray(pq.read_table(shop / f"{name}.parquet")["ts"]))
        assert (gaps >= 0).all()
        assert (gaps == 0).any() or name == "refunds"


def test_orders_and_payments_meet_at_equal_milliseconds(shop: Path) -> None:
    orders, payments = (
        set(pq.read_table(shop / f"{name}.parquet")["ts"].to_pylist()) for name in ("orders", "payments")
    )
    assert orders & payments


def test_about_fifteen_percent_of_the_orders_are_paid_in_time(shop: Path) -> None:
    orders, payments = (pq.read_table(shop / f"{name}.parquet") for name in ("orders", "payments"))
    paid = expected_pairs(
        OracleStream("o", orders, "ts", "ms", ("range", 10_000_000)),
        OracleStream("p", payments, "ts", "ms", ("range", 5_000_000)),
        [(("o", "id"), ("p", "order_id"))],
        [("id", "o", "id")],
    )
    distinct = pc.count_distinct(paid["id"]).as_py()
    assert 0.11 * orders.num_rows < distinct < 0.18 * orders.num_rows
    assert paid.num_rows > distinct, "some orders are paid twice"


def test_some_payments_name_orders_that_are_not_there(shop: Path) -> None:
    orders, payments = (pq.read_table(shop / f"{name}.parquet") for name in ("orders", "payments"))
    known = pc.is_in(payments["order_id"], value_set=orders["id"].combine_chunks())
    assert 0 < pc.sum(pc.invert(known)).as_py() < payments.num_rows / 2


def test_notes_are_between_60_and_120_bytes_and_varied(shop: Path) -> None:
    note = pq.read_table(shop / "orders.parquet")["note"]
    widths = pc.min_max(pc.binary_length(note)).as_py()
    assert widths["min"] >= 60
    assert widths["max"] <= 120
    assert len(note.unique()) > 1_000


def test_refunds_name_payments_of_the_provider(shop: Path) -> None:
    payments, refunds = (pq.read_table(shop / f"{name}.parquet") for name in ("payments", "refunds"))
    assert refunds.num_rows > 0
    assert pc.all(pc.is_in(refunds["payment_id"], value_set=payments["payment_id"].combine_chunks())).as_py()


def test_the_cluster_file_names_three_sites_with_a_stream_each(shop: Path) -> None:
    cluster = load_cluster(shop / "cluster.toml")
    assert cluster.tau_ms == 500
    assert {site.engine for site in cluster.sites} == {"spark"}
    assert [site.name for site in cluster.sites] == ["frankfurt", "virginia", "singapore"]
    assert [site.listen for site in cluster.sites] == [f"127.0.0.1:{port}" for port in PORTS]
    assert [[stream.name for stream in site.streams] for site in cluster.sites] == [
        ["orders"],
        ["payments"],
        ["refunds"],
    ]
    assert all(stream.path.exists() for site in cluster.sites for stream in site.streams)


def test_a_shop_without_orders_still_writes_its_files(tmp_path: Path) -> None:
    folder = write_shop(tmp_path, seconds=1, orders_per_second=0.0, seed=1, ports=PORTS).parent
    assert pq.read_table(folder / "orders.parquet").num_rows == 0
    assert pa.types.is_int64(pq.read_schema(folder / "payments.parquet").field("order_id").type)


def test_the_demo_query_names_columns_that_exist(shop: Path) -> None:
    columns = {alias: pq.read_schema(shop / f"{name}.parquet").names for alias, name in STREAMS.items()}
    for word in DEMO_QUERY.replace(",", " ").split():
        alias, dot, column = word.partition(".")
        if dot:
            assert column in columns[alias]


def test_the_oracle_is_asked_the_same_question(shop: Path) -> None:
    config = load_cluster(shop / "cluster.toml")
    query = parse_query(DEMO_QUERY, check_sources(config, [site.name for site in config.sites]))
    assert {ref.alias: ref.stream.name for ref in query.streams} == STREAMS
    assert {ref.alias: ref.window for ref in query.streams} == {
        alias: RangeWindow(length_us) for alias, length_us in WINDOWS_US.items()
    }
    assert tuple((item.name, *str(item.source).split(".")) for item in query.outputs) == OUTPUTS
    asked = {frozenset((str(edge.left), str(edge.right))) for edge in query.edges}
    assert asked == {frozenset(".".join(column) for column in edge) for edge in EDGES}


def test_some_refunds_find_their_order_and_some_come_too_late(shop: Path) -> None:
    tables = {alias: pq.read_table(shop / f"{name}.parquet") for alias, name in STREAMS.items()}
    streams = [OracleStream(alias, table, "ts", "ms", ("range", WINDOWS_US[alias])) for alias, table in tables.items()]
    found = expected(streams, EDGES, OUTPUTS).num_rows
    assert 0.3 * tables["r"].num_rows < found < tables["r"].num_rows


def test_the_network_of_the_demo_is_that_of_the_regions_with_thin_links(tmp_path: Path) -> None:
    path = write_shop(tmp_path, 1, 1.0, 1, PORTS, wan=True)
    wan = wan_of(load_cluster(path))
    assert wan is not None
    assert wan.shape("frankfurt", "virginia").latency_ms == 45
    assert wan.shape("virginia", "frankfurt").bytes_per_s == BYTES_PER_S
    assert BANDWIDTH in path.read_text()
