"""A shop with a site in Frankfurt, a card provider in Virginia and refunds in Singapore.

Most orders are paid in ways this provider never sees, so few of them join: about
15 percent are paid by card within a few seconds, and about one in eight of these
payments is taken back soon after. Some payments name orders from long ago or
orders that never were, some are sent twice, and times are milliseconds on a busy
site, so ties occur. Same arguments, same bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from node.config import NATIVE, SPARK

DEMO_QUERY = (
    "SELECT o.id, o.customer, o.item, o.price_cents, o.address, o.tracking, o.note, p.method, p.risk_score, r.reason "
    "FROM orders [RANGE 30 SECONDS] AS o "
    "JOIN payments [RANGE 20 SECONDS] AS p ON p.order_id = o.id "
    "JOIN refunds [RANGE 10 SECONDS] AS r ON r.payment_id = p.payment_id"
)
#: The same once more for whoever must not read the query: the oracle.
STREAMS = {"o": "orders", "p": "payments", "r": "refunds"}
WINDOWS_US = {"o": 30_000_000, "p": 20_000_000, "r": 10_000_000}
EDGES = ((("o", "id"), ("p", "order_id")), (("p", "payment_id"), ("r", "payment_id")))
OUTPUTS = (
    ("id", "o", "id"),
    ("customer", "o", "customer"),
    ("item", "o", "item"),
    ("price_cents", "o", "price_cents"),
    ("address", "o", "address"),
    ("tracking", "o", "tracking"),
    ("note", "o", "note"),
    ("method", "p", "method"),
    ("risk_score", "p", "risk_score"),
    ("reason", "r", "reason"),
)

#: Each tick of a site is a job of its Spark, and here three of them share a machine.
TAU = {SPARK: "500ms", NATIVE: "100ms"}

#: Of each direction of a link: less than it would take to ship every order as it is made.
BANDWIDTH = "512 kbit/s"
BYTES_PER_S = 512_000 / 8

SITES = {"frankfurt": "orders", "virginia": "payments", "singapore": "refunds"}

START_MS = 1_767_254_400_000
FIRST_ORDER = 7_300_000
PAID_RATE = 0.15
#: Per paid order: payments sent a second time, for old orders, and for orders that never were.
DOUBLE_RATE, OLD_RATE, UNKNOWN_RATE = 0.03, 0.10, 0.04
REFUND_RATE = 0.12

FIRST_NAMES = ("Anna", "Jonas", "Mei", "Lucas", "Fatima", "Noah", "Ines", "Oskar", "Priya", "Tom", "Yuki", "Clara")
LAST_NAMES = ("Weber", "Martin", "Tan", "Rossi", "Kaya", "Novak", "Silva", "Berg", "Patel", "Jansen", "Sato", "Moreau")
COUNTRIES = ("DE", "FR", "NL", "AT", "IT", "PL", "ES", "SE", "CH", "BE")
CARD_COUNTRIES = (*COUNTRIES, "US", "GB", "SG")
ITEMS = {
    "running shoes": 8_990,
    "rain jacket": 12_900,
    "espresso beans 1kg": 1_890,
    "desk lamp": 4_450,
    "wireless mouse": 2_990,
    "hiking backpack": 9_900,
    "cotton t-shirt": 1_500,
    "cast iron pan": 5_490,
    "yoga mat": 2_790,
    "bluetooth speaker": 6_990,
    "board game": 3_690,
    "notebook set": 1_290,
}
STREETS = ("Lindenallee", "Bahnhofstrasse", "Rue des Lilas", "Via Garibaldi", "Kerkstraat", "Calle Mayor")
TOWNS = ("Frankfurt", "Lyon", "Utrecht", "Graz", "Torino", "Gdansk", "Sevilla", "Malmo", "Basel", "Gent")
METHODS = ("visa", "mastercard", "amex", "maestro")
REASONS = ("damaged in transit", "wrong size", "arrived late", "changed mind", "double charge")
PLACES = (
    "Please leave the parcel with the neighbour on floor",
    "Deliver to the reception desk of building number",
    "Ring twice and wait, the bell is slow, flat number",
    "Put it in the parcel box behind the gate, box number",
    "Hand it over only in person, please, at door number",
)
WISHES = (
    "no plastic wrapping if you can",
    "it is a birthday present, thank you",
    "call ahead",
    "any time after six in the evening is fine",
    "the invoice goes to the company address",
    "same size as my last order",
)

Ints = npt.NDArray[np.int64]


def write_shop(
    folder: Path,
    seconds: int,
    orders_per_second: float,
    seed: int,
    ports: tuple[int, int, int],
    engine: str = SPARK,
    wan: bool = False,
) -> Path:
    """Write the three streams and the cluster file into ``folder``; returns the cluster file's path.

    With ``wan`` the file asks for an emulated network between the sites.
    """
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    orders = make_orders(random, seconds, orders_per_second)
    payments = make_payments(random, orders, seconds)
    tables = {"orders": orders, "payments": payments, "refunds": make_refunds(random, payments, seconds)}
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    cluster = folder / "cluster.toml"
    cluster.write_text(cluster_text(ports, engine, wan))
    return cluster


def make_orders(random: np.random.Generator, seconds: int, orders_per_second: float) -> pa.Table:
    """The orders: ids count up with time, prices follow the item and the quantity."""
    rows = round(seconds * orders_per_second)
    item = random.integers(0, len(ITEMS), rows)
    quantity = 1 + random.poisson(0.4, rows)
    price_each = np.array(list(ITEMS.values()), dtype=np.int64)[item]
    return pa.table(
        {
            "id": FIRST_ORDER + np.arange(rows),
            "ts": START_MS + np.sort(random.integers(0, seconds * 1_000, rows)),
            "customer": pc.binary_join_element_wise(
                pick(random, FIRST_NAMES, rows), pick(random, LAST_NAMES, rows), " "
            ),
            "country": pick(random, COUNTRIES, rows),
            "item": pa.array(list(ITEMS)).take(pa.array(item)),
            "quantity": quantity,
            "price_cents": quantity * price_each,
            "address": addresses(random, rows),
            "tracking": pc.binary_join_element_wise("NRW", numbers(random, 10**12, rows), ""),
            "note": notes(random, rows),
        }
    )


def make_payments(random: np.random.Generator, orders: pa.Table, seconds: int) -> pa.Table:
    """The provider's payments: of recent orders, some twice, and some of orders nobody here knows."""
    ids, times, prices = (np.asarray(orders[name]) for name in ("id", "ts", "price_cents"))
    paid = np.flatnonzero(random.random(len(ids)) < PAID_RATE)
    delay_ms = random.gamma(3.0, 900.0, len(paid)).astype(np.int64)
    twice = np.flatnonzero(random.random(len(paid)) < DOUBLE_RATE)
    strangers = stranger_ids(random, len(paid), len(ids))
    order_id = np.concatenate([ids[paid], ids[paid][twice], strangers])
    again_ms = random.integers(0, 2_000, len(twice))
    stranger_ts = START_MS + random.integers(0, seconds * 1_000, len(strangers))
    ts = np.concatenate([times[paid] + delay_ms, (times[paid] + delay_ms)[twice] + again_ms, stranger_ts])
    stranger_cents = random.integers(990, 30_000, len(strangers))
    amount = np.concatenate([prices[paid], prices[paid][twice], stranger_cents])
    by_time = np.argsort(ts, kind="stable")
    by_time = by_time[ts[by_time] < START_MS + seconds * 1_000]
    rows = len(by_time)
    return pa.table(
        {
            "payment_id": 910_000_000 + np.cumsum(random.integers(1, 30, rows)),
            "order_id": order_id[by_time],
            "ts": ts[by_time],
            "method": pick(random, METHODS, rows),
            "amount_cents": amount[by_time],
            "card_country": pick(random, CARD_COUNTRIES, rows),
            "card_last4": random.integers(0, 10_000, rows).astype(np.int16),
            "risk_score": np.round(random.beta(1.5, 9.0, rows), 3),
            "authorisation": pc.binary_join_element_wise("auth", numbers(random, 10**9, rows), "-"),
        }
    )


def stranger_ids(random: np.random.Generator, paid: int, orders: int) -> Ints:
    """Order ids from before the first order, and ids that no order will ever have."""
    old = FIRST_ORDER - random.integers(1, 50_000, round(paid * OLD_RATE))
    unknown = FIRST_ORDER + orders + random.integers(10**6, 2 * 10**6, round(paid * UNKNOWN_RATE))
    return np.concatenate([old, unknown])


def make_refunds(random: np.random.Generator, payments: pa.Table, seconds: int) -> pa.Table:
    """Refunds of a few payments, up to half a minute after them: some too late for the demo's windows."""
    chosen = np.flatnonzero(random.random(payments.num_rows) < REFUND_RATE)
    delay_ms = random.integers(500, 30_000, len(chosen))
    ts = np.asarray(payments["ts"])[chosen] + delay_ms
    by_time = np.argsort(ts, kind="stable")
    by_time = by_time[ts[by_time] < START_MS + seconds * 1_000]
    source = payments.take(pa.array(chosen[by_time]))
    return pa.table(
        {
            "refund_id": 40_000 + np.arange(len(by_time)),
            "payment_id": source["payment_id"],
            "order_id": source["order_id"],
            "ts": ts[by_time],
            "amount_cents": source["amount_cents"],
            "reason": pick(random, REASONS, len(by_time)),
        }
    )


def pick(random: np.random.Generator, choices: tuple[str, ...], rows: int) -> pa.Array:
    """Strings drawn evenly."""
    return pa.array(choices).take(pa.array(random.integers(0, len(choices), rows)))


def numbers(random: np.random.Generator, below: int, rows: int) -> pa.Array:
    """Random numbers as strings."""
    return pa.array(random.integers(1, below, rows)).cast(pa.string())


def addresses(random: np.random.Generator, rows: int) -> pa.Array:
    """Where parcels go."""
    street = pc.binary_join_element_wise(pick(random, STREETS, rows), numbers(random, 300, rows), " ")
    town = pc.binary_join_element_wise(numbers(random, 100_000, rows), pick(random, TOWNS, rows), " ")
    return pc.binary_join_element_wise(street, town, ", ")


def notes(random: np.random.Generator, rows: int) -> pa.Array:
    """What customers write to the courier, 60 to 120 bytes."""
    place = pc.binary_join_element_wise(pick(random, PLACES, rows), numbers(random, 400, rows), " ")
    return pc.binary_join_element_wise(place, pick(random, WISHES, rows), ", ")


def cluster_text(ports: tuple[int, int, int], engine: str, wan: bool) -> str:
    """The cluster file: three sites on this machine, one stream each; paths are relative to the file."""
    lines = [f'tau = "{TAU[engine]}"', f'engine = "{engine}"']
    for (site, stream), port in zip(SITES.items(), ports, strict=True):
        lines += ["", f"[site.{site}]", f'listen = "127.0.0.1:{port}"']
        lines += ["", f"[site.{site}.stream.{stream}]", f'path = "{stream}.parquet"', 'ts = "ts"', 'unit = "ms"']
    if wan:
        lines += ["", "[wan]", 'profile = "regions"', f'bandwidth = "{BANDWIDTH}"']
    return "\n".join(lines) + "\n"
