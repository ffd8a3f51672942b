"""What every engine must do, done by the Spark engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core import keycodes as keys
from spark_jobs.process import SparkProcess
from tests.engines.conformance import *  # noqa: F403 - the cases
from tests.engines.conformance import (
    ARRIVALS,
    EXTREMES,
    KEYED,
    Engines,
    check_any_order_of_arrival,
    check_any_order_of_time,
    check_any_program,
    check_extreme_times,
    programs,
)
from tests.engines.on_spark import SparkEngines


@pytest.fixture(scope="module")
def engines(spark: SparkProcess, spark_folder: Path) -> Iterator[Engines]:
    made = SparkEngines(spark, spark_folder)
    yield made
    made.close()


@given(program=programs())
@settings(max_examples=25, deadline=None)
def test_any_program_gives_the_rows_of_the_definition(
    engines: Engines, finish: keys.Finish, program: list[tuple[str, Any]]
) -> None:
    check_any_program(engines, finish, program)


@pytest.mark.parametrize("keyed", KEYED)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_order_of_time_gives_the_rows_of_the_reference(
    engines: Engines, keyed: str, finish: keys.Finish, data: st.DataObject
) -> None:
    check_any_order_of_time(engines, keyed, finish, data)


@given(**ARRIVALS)
@settings(max_examples=15, deadline=None)
def test_answers_do_not_depend_on_the_order_of_arrival(
    engines: Engines, rows: list[tuple[int, str]], cuts: list[int]
) -> None:
    check_any_order_of_arrival(engines, rows, cuts)


@given(**EXTREMES)
@settings(max_examples=25, deadline=None)
def test_extreme_times_do_not_wrap_around(
    engines: Engines, window: list[int], carry: list[int], reach: int, ties: bool
) -> None:
    check_extreme_times(engines, window, carry, reach, ties)
