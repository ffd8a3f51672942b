"""How long a client waits for a daemon that is away, and what it says: once, and then rarely."""

from __future__ import annotations

import pytest

from node.client import AwayTooLongError, DaemonUnreachableError, Patience, StartingError

AWAY = DaemonUnreachableError("nobody answers", "cam")


class Waiting:
    """A clock that goes on when somebody sleeps, and a daemon that is back at some time."""

    def __init__(self, back_s: float, wait_s: float | None = None) -> None:
        self.now_s = 0.0
        self.back_s = back_s
        self.said: list[str] = []
        self.asked = 0
        self.patience = Patience(wait_s, self.said.append, self._sleep, lambda: self.now_s)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def answer(self) -> str:
        self.asked += 1
        if self.now_s < self.back_s:
            raise AWAY
        return "here"


def test_who_answers_at_once_is_not_spoken_of() -> None:
    waiting = Waiting(0)
    assert waiting.patience.ask(waiting.answer, "for it") == "here"
    assert (waiting.said, waiting.now_s) == ([], 0)


def test_who_is_back_before_one_would_have_noticed_is_not_spoken_of() -> None:
    waiting = Waiting(0.05)
    assert waiting.patience.ask(waiting.answer, "for it") == "here"
    assert waiting.said == []


def test_that_a_site_is_away_is_said_once_and_then_rarely_and_that_it_is_back() -> None:
    waiting = Waiting(3_600)
    assert waiting.patience.ask(waiting.answer, "to go on with row 7") == "here"
    first, *again, back = waiting.said
    assert first.startswith("site cam is away since ")
    assert first.endswith(" (nobody answers); waiting to go on with row 7")
    assert 4 <= len(again) <= 6
    assert all("site cam is still away since" in line for line in again)
    assert back.startswith("site cam is back after 36")
    assert waiting.asked < 2_000


def test_attempts_come_soon_at_first_and_never_more_than_seconds_apart() -> None:
    waiting = Waiting(1.0)
    waiting.patience.ask(waiting.answer, "for it")
    assert waiting.now_s < 2.0
    assert 3 <= waiting.asked <= 8


def test_enough_is_enough_and_that_is_to_the_second() -> None:
    waiting = Waiting(1e9, wait_s=10)
    with pytest.raises(
        AwayTooLongError, match=r"cam is away since .*, longer than 10 s: nobody answers\nit was waited"
    ):
        waiting.patience.ask(waiting.answer, "for it")
    assert waiting.now_s == pytest.approx(10)


def test_each_time_that_it_is_away_is_waited_for_anew() -> None:
    waiting = Waiting(8, wait_s=10)
    waiting.patience.ask(waiting.answer, "for it")
    waiting.back_s = waiting.now_s + 8
    assert waiting.patience.ask(waiting.answer, "for it") == "here"


def test_one_that_is_starting_is_waited_for_and_other_refusals_are_not() -> None:
    waiting = Waiting(0)
    answers = iter([StartingError("it is starting", "cam"), StartingError("it is starting", "cam"), ValueError("no")])

    def ask() -> None:
        raise next(answers)

    with pytest.raises(ValueError, match="no"):
        waiting.patience.ask(ask, "for it")
