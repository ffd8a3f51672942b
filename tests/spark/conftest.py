"""One Spark for all tests of this folder: to start it takes longer than all that a test does with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
