"""How large the pieces of a past are, and when the next one may leave."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from node.core.events import LinkMeasured
from node.core.limits import Limits
from node.core.links.pace import Pace

LIMITS = Limits(piece_bytes_min=1_000, piece_bytes_unknown=20_000, piece_bytes_max=500_000)
SECOND_US = 1_000_000


def measured(bytes_per_s: float | None, *rtts_us: int) -> Pace:
    pace = Pace(LIMITS)
    for rtt_us in rtts_us:
        pace.measured(LinkMeasured("bow", rtt_us, bytes_per_s))
    return pace


def warm(bytes_per_s: float | None, *rtts_us: int) -> Pace:
    """The same after many pieces, of which none is on its way any more."""
    pace, under_way = measured(bytes_per_s, *rtts_us), 0
    for _ in range(100):
        while pace.may_send("bow", SECOND_US, 0):
            pace.sent("bow")
            under_way += 1
        pace.measured(LinkMeasured("bow", rtts_us[0], bytes_per_s))
        under_way -= 1
    for _ in range(under_way):
        pace.measured(LinkMeasured("bow", rtts_us[0], bytes_per_s))
    return pace


@pytest.mark.parametrize(
    ("bytes_per_s", "tau_us", "piece"),
    [
        (None, SECOND_US, 20_000),
        (1e6, SECOND_US, 250_000),
        (1e6, SECOND_US // 10, 25_000),
        (1e9, SECOND_US, 500_000),
        (1e3, SECOND_US, 1_000),
    ],
)
def test_a_piece_takes_a_quarter_of_a_tick_of_what_the_link_carries(
    bytes_per_s: float | None, tau_us: int, piece: int
) -> None:
    assert measured(bytes_per_s, 7).piece_bytes("bow", tau_us) == piece
    assert measured(bytes_per_s, 7).piece_bytes("cam", tau_us) == 20_000, "of that link nothing is known"


def test_the_link_is_kept_full_and_no_more_than_a_piece_waits_in_it() -> None:
    #  1 MB/s, 100 ms there and back: 100,000 bytes are on their way when nothing waits
    pace = warm(1e6, 100_000)
    pace.sent("bow")
    assert pace.may_send("bow", SECOND_US, 100_000 + 250_000)
    assert not pace.may_send("bow", SECOND_US, 100_000 + 250_001)


def test_a_round_trip_that_waited_in_the_queue_does_not_make_that_longer() -> None:
    pace = warm(1e6, 100_000, 350_000)
    pace.sent("bow")
    assert not pace.may_send("bow", SECOND_US, 350_001)


def test_what_a_link_carries_is_found_out_with_four_pieces() -> None:
    pace = warm(None, 100_000)
    pace.sent("bow")
    assert pace.may_send("bow", SECOND_US, 60_000)
    assert not pace.may_send("bow", SECOND_US, 60_001)


def test_one_piece_may_always_be_on_its_way() -> None:
    pace = measured(1e6, 100_000)
    assert pace.may_send("bow", SECOND_US, 10**9)
    pace.sent("bow")
    pace.sent("bow")
    assert not pace.may_send("bow", SECOND_US, 10**9)
    pace.measured(LinkMeasured("bow", 100_000, 1e6))
    assert not pace.may_send("bow", SECOND_US, 10**9), "the other is on its way"
    pace.measured(LinkMeasured("bow", 100_000, 1e6))
    assert pace.may_send("bow", SECOND_US, 10**9)


def test_what_was_asked_on_a_connection_that_is_gone_is_not_waited_for() -> None:
    pace = measured(1e6, 100_000)
    pace.sent("bow")
    pace.connected("bow")
    assert pace.may_send("bow", SECOND_US, 10**9)


@pytest.mark.parametrize("again", [lambda pace: pace.begin("bow"), lambda pace: pace.connected("bow")])
def test_a_past_begins_with_one_piece_and_has_two_more_on_their_way_after_each_round_trip(
    again: Callable[[Pace], None],
) -> None:
    pace = warm(1e6, 100_000)
    again(pace)
    counts, under_way = [], 0
    for answers in (0, 1, 3):
        for answer in range(answers + 1):
            while pace.may_send("bow", SECOND_US, 0):
                pace.sent("bow")
                under_way += 1
            if answer < answers:
                pace.measured(LinkMeasured("bow", 100_000, 1e6))
                under_way -= 1
        counts.append(under_way)
    assert counts == [1, 3, 4]


# -- a link that carries so much ----------------------------------------------------------------


class Line:
    """A link in virtual time: a past to be sent, and small rows that come up meanwhile."""

    def __init__(self, bytes_per_s: float, rtt_us: int, past: int, tau_us: int) -> None:
        self.pace = Pace(Limits())
        self.bytes_per_s, self.rtt_us, self.tau_us = bytes_per_s, rtt_us, tau_us
        self.left = past
        self.now_us = 0.0
        self.free_us = 0.0
        self.flying: deque[tuple[float, float, int]] = deque()
        #: How long rows waited for what was ahead of them.
        self.waited_us: list[float] = []
        self.pace.measured(LinkMeasured("bow", rtt_us, bytes_per_s))

    def send(self, nbytes: int) -> float:
        """When they have left."""
        self.free_us = max(self.free_us, self.now_us) + nbytes * 1e6 / self.bytes_per_s
        return self.free_us

    def run(self) -> float:
        """Send all; when the last of it has left."""
        row_us = 0.0
        while self.left:
            while self.left and self.pace.may_send("bow", self.tau_us, sum(size for _, _, size in self.flying)):
                piece = min(self.left, self.pace.piece_bytes("bow", self.tau_us))
                self.left -= piece
                self.flying.append((self.send(piece) + self.rtt_us, self.now_us, piece))
                self.pace.sent("bow")
            if self.flying and self.flying[0][0] <= row_us:
                self.now_us, sent_us, _ = self.flying.popleft()
                self.pace.measured(LinkMeasured("bow", round(self.now_us - sent_us), self.bytes_per_s))
            else:
                self.now_us, row_us = row_us, row_us + 10_000
                self.waited_us.append(max(0.0, self.free_us - self.now_us))
                self.send(50)
        return self.free_us


@pytest.mark.parametrize("bytes_per_s", [1.25e5, 1.25e6, 1.25e7])
@pytest.mark.parametrize("rtt_us", [1_000, 40_000, 250_000])
@pytest.mark.parametrize("tau_us", [100_000, SECOND_US])
def test_a_past_takes_hardly_longer_than_the_link_needs_and_rows_wait_for_about_a_piece(
    bytes_per_s: float, rtt_us: int, tau_us: int
) -> None:
    past = int(30 * bytes_per_s)
    line = Line(bytes_per_s, rtt_us, past, tau_us)
    assert line.run() < 1.05 * 30e6
    piece_us = line.pace.piece_bytes("bow", tau_us) * 1e6 / bytes_per_s
    assert piece_us <= max(tau_us / 4, 16 * 1024 * 1e6 / bytes_per_s)
    waited_us = sorted(line.waited_us)
    assert waited_us[len(waited_us) * 99 // 100] < 2.2 * piece_us
    assert waited_us[-1] < 4 * piece_us
