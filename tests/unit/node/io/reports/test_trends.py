"""Since when things are as they are."""

from __future__ import annotations

from node.io.reports.trends import Lag, Rates, Since


def test_since_starts_anew_when_the_value_changes() -> None:
    since = Since()
    assert since.seconds("a", 1, 10.0) == 0
    assert since.seconds("a", 1, 14.0) == 4
    assert since.seconds("b", 1, 14.0) == 0
    assert since.seconds("a", 2, 15.0) == 0
    assert since.seconds("a", 2, 16.5) == 1.5


def test_what_is_noted_no_more_is_forgotten() -> None:
    since = Since()
    since.seconds("a", 1, 10.0)
    since.seconds("b", 1, 11.0)
    since.forget_gone(11.0)
    assert since.seconds("a", 1, 12.0) == 0
    assert since.seconds("b", 1, 12.0) == 1


def test_a_lag_is_how_long_the_oldest_waits_that_is_not_taken() -> None:
    #  at     10   11   12   13
    #  made    5    9    9   20
    lag = Lag()
    for at_s, made in ((10.0, 5), (11.0, 9), (12.0, 9), (13.0, 20)):
        lag.note(made, at_s)
    assert lag.seconds(0, 14.0) == 4  # number 0 was there at 10
    assert lag.seconds(5, 14.0) == 3  # number 5 was there at 11
    assert lag.seconds(9, 14.0) == 1
    assert lag.seconds(20, 14.0) == 0
    lag.note(20, 15.0)
    assert lag.seconds(20, 20.0) == 0
    lag.note(21, 21.0)
    assert lag.seconds(20, 23.0) == 2


def test_a_lag_whose_numbers_begin_anew_knows_nothing_of_before() -> None:
    lag = Lag()
    lag.note(100, 10.0)
    lag.note(3, 20.0)
    assert lag.seconds(0, 21.0) == 1


def test_a_lag_that_grows_for_hours_stays_small_and_keeps_its_oldest_moment() -> None:
    lag = Lag()
    for second in range(10_000):
        lag.note(second + 1, float(second))
    assert len(lag._moments) <= 600
    assert lag.seconds(0, 10_000.0) == 10_000


def test_rates_are_over_the_last_seconds() -> None:
    rates = Rates(5.0)
    assert rates.per_s("a", 7, 0.0) == 0
    for second in range(10):
        rates.note({"a": 100 * second}, float(second))
    assert rates.per_s("a", 900, 9.0) == 100
    assert rates.grown("a", 900) == 500
    # It was started again and counts from 0.
    assert rates.grown("a", 30) == 30
