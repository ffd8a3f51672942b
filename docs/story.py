"""The example of ``how-a-tuple-travels.md``: its tables, its queries, and every message that its pictures show.

A test runs it in the simulator, on links with the delays of those cities, and compares: what is drawn is what happens,
to the millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.algorithms.kinds import Kind

TAU_MS = 100
#: One way, in milliseconds: half of the round trips that netsim's profile ``regions`` has.
DELAYS_MS = {
    ("frankfurt", "virginia"): 45,
    ("frankfurt", "singapore"): 80,
    ("singapore", "virginia"): 107,
}
SITES = {"orders": "frankfurt", "payments": "virginia", "refunds": "singapore"}
SINK = "singapore"

Row = Mapping[str, int | str]

#: Event times are milliseconds.
ORDERS: tuple[Row, ...] = (
    {"id": 7300041, "ts": 2012, "item": "rain jacket"},
    {"id": 7300042, "ts": 2034, "item": "desk lamp"},
    {"id": 7300043, "ts": 2180, "item": "yoga mat"},
    {"id": 7300044, "ts": 14210, "item": "board game"},
)
PAYMENTS: tuple[Row, ...] = (
    {"payment_id": 501, "order_id": 7300043, "ts": 2150, "method": "amex"},
    {"payment_id": 502, "order_id": 7299001, "ts": 2240, "method": "maestro"},
    {"payment_id": 503, "order_id": 7300042, "ts": 2265, "method": "visa"},
    {"payment_id": 504, "order_id": 7300041, "ts": 13000, "method": "visa"},
)
REFUNDS: tuple[Row, ...] = (
    {"refund_id": 40, "payment_id": 503, "ts": 5120, "reason": "wrong size"},
    {"refund_id": 41, "payment_id": 220, "ts": 14460, "reason": "arrived late"},
)
TABLES = {"orders": ORDERS, "payments": PAYMENTS, "refunds": REFUNDS}

QUERY = """\
SELECT o.id, o.item, p.method
FROM orders [RANGE 10 SECONDS] AS o
JOIN payments [RANGE 5 SECONDS] AS p ON o.id = p.order_id"""
#: How each head looks for its partners.
STEPS = {"o": (("p", "SM-D1"),), "p": (("o", "SM-D2"),)}
RESULTS: tuple[Row, ...] = (
    {"id": 7300042, "item": "desk lamp", "method": "visa"},
    {"id": 7300043, "item": "yoga mat", "method": "amex"},
)

THREE_WAY = f"""\
{QUERY}
JOIN refunds [RANGE 5 SECONDS] AS r ON r.payment_id = p.payment_id"""
#: The steps of each head: stream and algorithm.
THREE_STEPS = {
    "o": (("p", "SM-D1"), ("r", "SP-D")),
    "p": (("o", "SM-D2"), ("r", "SP-D")),
    "r": (("p", "SM-D2"), ("o", "SP-D")),
}
THREE_RESULTS: tuple[Row, ...] = ({"id": 7300042, "item": "desk lamp", "method": "visa"},)


@dataclass(frozen=True, slots=True)
class Sent:
    """Messages that travel together, as the pictures show them.

    ``parts`` names them: what it is, of which walk. ``label`` is what the picture says, in lines; ``share`` says where
    on its way.
    """

    sent_ms: int
    arrives_ms: int
    source: str
    target: str
    parts: tuple[str, ...]
    kind: Kind
    label: tuple[str, ...]
    share: float = 0.5
    #: By which the text names it; 0: not at all.
    number: int = 0

    @property
    def leaves_ms(self) -> int:
        """When what arrives has left: later than it was first sent if that was lost, or waited for the link."""
        return self.arrives_ms - delay_ms(self.source, self.target)


def delay_ms(source: str, target: str) -> int:
    """How long anything is under way from one site to another."""
    return DELAYS_MS[min(source, target), max(source, target)]


#: Everything that any site sends to another in this time, and when it arrives.
RUN_MS = 2001, 2601
RUN = (
    Sent(2100, 2145, "virginia", "frankfurt", ("Sync 21",), Kind.SYNC, ("V: nothing new", "sealed up to tick 21")),
    Sent(
        2200,
        2245,
        "virginia",
        "frankfurt",
        ("Sync 22", "AskMatches p [21, 22)"),
        Kind.SYNC,
        ("V: 7300043 is born", "p: who matches 7300043?"),
        number=1,
    ),
    Sent(
        2245,
        2290,
        "frankfurt",
        "virginia",
        ("Carry o [21, 22)",),
        Kind.TUPLES,
        ("o: order 7300043", "yoga mat"),
        number=2,
    ),
    Sent(
        2290,
        2397,
        "virginia",
        "singapore",
        ("Rows o [21, 22)", "Rows p [15, 21)"),
        Kind.RESULTS,
        ("o: row 7300043, amex", "and: no rows of p 15 to 20"),
        0.8,
        number=3,
    ),
    Sent(
        2300,
        2345,
        "virginia",
        "frankfurt",
        ("Sync 23", "AskMatches p [22, 23)"),
        Kind.KEYS,
        ("V: two more keys", "p: who matches 7299001, 7300042?"),
        number=4,
    ),
    Sent(2345, 2390, "frankfurt", "virginia", ("KeyAnswer p [22, 23)",), Kind.KEY_ANSWERS, ("p: bits 0, 1",), number=5),
    Sent(
        2390,
        2435,
        "virginia",
        "frankfurt",
        ("Carry p [22, 23)",),
        Kind.TUPLES,
        ("p: payment 503 of 7300042",),
        0.42,
        number=6,
    ),
    Sent(2400, 2445, "virginia", "frankfurt", ("Sync 24",), Kind.SYNC, ("V: tick 24",), 0.78),
    Sent(
        2435,
        2515,
        "frankfurt",
        "singapore",
        ("Rows p [22, 23)", "Rows o [14, 21)", "Rows o [22, 24)", "Rows p [21, 22)"),
        Kind.RESULTS,
        ("p: row 7300042, visa", "and: no rows of o 14 to 20,", "o 22 to 23, p 21"),
        number=7,
    ),
    Sent(2500, 2545, "virginia", "frankfurt", ("Sync 25",), Kind.SYNC, ("V: tick 25",)),
    Sent(2600, 2645, "virginia", "frankfurt", ("Sync 26",), Kind.SYNC, ("V: tick 26",)),
    Sent(2600, 2680, "singapore", "frankfurt", ("Done o=24 p=23",), Kind.CONTROL, ("done: o 24, p 23",), 0.3),
    Sent(2600, 2707, "singapore", "virginia", ("Done o=24 p=23",), Kind.CONTROL, ("done: o 24, p 23",), 0.8),
)

#: The same with the link between frankfurt and virginia cut; what it does not touch happens as above.
CUT_MS = 2360, 2780
CUT_PAIR = "frankfurt", "virginia"
#: When it is dialled again.
DIALLED_MS = 2560, 2760, 2960
CUT_RUN_MS = 2301, 3101
CUT_RUN = (
    Sent(2345, 3050, "frankfurt", "virginia", ("KeyAnswer p [22, 23)",), Kind.KEY_ANSWERS, ("p: bits 0, 1",), 0.27),
    Sent(
        2400,
        3050,
        "virginia",
        "frankfurt",
        tuple(f"Sync {tick}" for tick in range(24, 31)),
        Kind.SYNC,
        ("V: ticks 24 to 30",),
        0.27,
    ),
    Sent(
        2500,
        2580,
        "frankfurt",
        "singapore",
        ("Rows o [14, 21)", "Rows o [22, 24)", "Rows p [21, 22)"),
        Kind.RESULTS,
        ("no rows of o 14 to 20,", "o 22 to 23, p 21"),
    ),
    Sent(2580, 2660, "singapore", "frankfurt", ("Done o=24 p=22",), Kind.CONTROL, ("done: o 24, p 22",), 0.3),
    Sent(
        2580,
        2687,
        "singapore",
        "virginia",
        ("Done o=24 p=22",),
        Kind.CONTROL,
        ("done: o 24, p 22", "by a link that is not cut"),
        0.8,
    ),
    Sent(3050, 3095, "virginia", "frankfurt", ("Carry p [22, 23)",), Kind.TUPLES, ("p: payment 503 of 7300042",), 0.6),
    Sent(
        3095,
        3175,
        "frankfurt",
        "singapore",
        ("Rows p [22, 23)", "Rows o [24, 30)"),
        Kind.RESULTS,
        ("p: row 7300042, visa", "and: no rows of o 24 to 29"),
    ),
    Sent(3100, 3145, "virginia", "frankfurt", ("Sync 31",), Kind.SYNC, ("V: tick 31",), 0.75),
)

#: The walk of the refund, with three streams: its own messages only.
THREE_MS = 5101, 5701
THREE_RUN = (
    Sent(
        5200,
        5307,
        "singapore",
        "virginia",
        ("AskMatches r [51, 52)",),
        Kind.KEYS,
        ("who matches payment 503?",),
        0.3,
        number=1,
    ),
    Sent(5307, 5414, "virginia", "singapore", ("KeyAnswer r [51, 52)",), Kind.KEY_ANSWERS, ("bit 1",), 0.65, number=2),
    Sent(5414, 5521, "singapore", "virginia", ("Carry r [51, 52)",), Kind.TUPLES, ("refund of 503",), 0.3, number=3),
    Sent(
        5521,
        5566,
        "virginia",
        "frankfurt",
        ("Carry r [51, 52)",),
        Kind.TUPLES,
        ("7300042, visa",),
        number=4,
    ),
    Sent(
        5566,
        5646,
        "frankfurt",
        "singapore",
        ("Rows r [51, 52)",),
        Kind.RESULTS,
        ("7300042, desk lamp, visa",),
        number=5,
    ),
)

#: At this time frankfurt knows the sink to be done with the ticks before these, and has sealed all before ``SEALED``.
FRONTIERS_MS = 2700
DONE = {"o": 24, "p": 23}
SEALED = 27
