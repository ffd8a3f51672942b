"""What every engine must do, done by the Spark engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.keys import keycodes as keys
from spark_jobs.process import SparkProcess
from tests.engines.conformance import *  # noqa: F403 - the cases
from tests.engines.conformance import (
    ARRIVALS,
    EXTREMES,
    check_any_order_of_arrival,
    check_any_program,
    check_extreme_positions,
    programs,
)
from tests.engines.fused import check_any_calls, check_fused_and_alone
from tests.engines.judge import Engines
from tests.engines.on_spark import SparkEngines
from tests.examples import new_examples

#: Dozens of examples, of several jobs each.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def engines(spark: SparkProcess, spark_folder: Path) -> Iterator[Engines]:
    made = SparkEngines(spark, spark_folder)
    yield made
    made.close()


@given(program=programs())
@new_examples(25)
def test_any_program_gives_the_rows_of_the_definition(
    engines: Engines, finish: keys.Finish, program: list[tuple[str, Any]]
) -> None:
    check_any_program(engines, finish, program)


@given(data=st.data())
@new_examples(25)
def test_any_calls_give_the_rows_of_the_reference(engines: Engines, finish: keys.Finish, data: st.DataObject) -> None:
    check_any_calls(engines, finish, data)


@given(data=st.data())
@new_examples(10)
def test_questions_get_together_what_they_get_alone(engines: Engines, finish: keys.Finish, data: st.DataObject) -> None:
    check_fused_and_alone(engines, finish, data)


@given(**ARRIVALS)
@new_examples(15)
def test_answers_do_not_depend_on_the_order_of_arrival(
    engines: Engines, rows: list[tuple[int, str]], cuts: list[int]
) -> None:
    check_any_order_of_arrival(engines, rows, cuts)


@given(**EXTREMES)
@new_examples(25)
def test_extreme_positions_do_not_wrap_around(
    engines: Engines, positions: list[int], bounds: list[tuple[int, int]]
) -> None:
    check_extreme_positions(engines, positions, bounds)
