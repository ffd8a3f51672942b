"""The Spark engine on other processes: a standalone master with two workers, on loopback, each with one executor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.spark.standalone import Standalone
from spark_jobs.process import SparkProcess, SparkSettings
from tests.engines.conformance import (  # noqa: F401 - the core of the cases
    test_a_closed_table_can_be_opened_anew_and_is_empty,
    test_a_probe_gives_the_columns_it_names_in_that_order,
    test_a_question_sees_what_was_appended_before_it,
    test_a_row_with_a_null_in_the_keys_of_one_index_is_found_by_the_others,
    test_an_index_opened_late_finds_what_is_there_and_what_comes,
    test_answer_keeps_nullability_and_field_metadata,
    test_every_operation_has_its_outcome_at_its_place,
    test_expiring_everything_frees_everything,
    test_expiry_keeps_rows_of_exactly_its_position,
    test_find_gives_positions_and_columns_and_the_number_of_their_key,
    test_find_of_no_keys_gives_no_rows_of_the_right_columns,
    test_keys_of_several_columns_join_only_when_all_are_equal,
    test_null_keys_match_nothing_not_even_null,
    test_payload_of_every_type_comes_back_as_it_went_in,
)
from tests.engines.on_spark import SparkEngines
from tests.engines.processes import gone, kill, wait_for, workers
from tests.engines.script import Pair, Script

#: A master, workers and executors are started, and some again.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("standalone"), workers=2, cores=1) as started:
        yield started


@pytest.fixture(scope="module")
def engines(cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngines]:
    folder = tmp_path_factory.mktemp("driver")
    process = SparkProcess(SparkSettings("there", cluster.master, cluster.options), folder)
    try:
        process.start()
        made = SparkEngines(process, folder, host="127.0.0.1", partitions=2)
        yield made
        made.close()
    finally:
        process.stop()


def test_an_executor_that_is_killed_changes_no_row(cluster: Standalone, engines: SparkEngines) -> None:
    """On a busy machine one executor does all the work before the other is there; that one's death costs nothing."""
    script, pair = Script(8), Pair(engines())

    def step() -> int:
        pair.run(script.step())
        return engines.engine.catch_ups["rebuilt"]

    for _ in range(5):
        step()
    for _ in range(2):
        wait_for(lambda: len(cluster.executors()) == 2)
        victim = next(executor for executor in cluster.executors() if workers(executor))
        rebuilt = engines.engine.catch_ups["rebuilt"]
        kill(victim)
        wait_for(lambda victim=victim: gone(victim))  # type: ignore[misc]
        for _ in range(3):
            step()
        # At the latest when its successor is there, which has nothing.
        wait_for(lambda rebuilt=rebuilt: step() > rebuilt)  # type: ignore[misc]
    assert pair.rows
