"""One Spark for all tests of this folder: to start it takes longer than all that a test does with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from node.core.keys import hashing
from node.core.keys import keycodes as keys
from spark_jobs.process import SparkProcess, SparkSettings


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Iterator[SparkProcess]:
    process = SparkProcess(SparkSettings("here"), spark_folder)
    try:
        process.start()
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="session")
def finishes() -> Sequence[keys.Finish]:
    """Which hash the workers use is not for a test to say."""
    return [hashing.scramble]


@pytest.fixture(scope="session")
def finish() -> keys.Finish:
    return hashing.scramble
