"""Files that take minutes come first, so that none of them is left alone at the end."""

from __future__ import annotations

import pytest

LONG = (
    "test_faults",
    "test_source",
    "test_kills",
    "test_conformance",
    "test_standalone",
    "test_real_data",
    "test_spark_sink",
    "test_exit_codes",
    "test_demo",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With --dist loadfile whole files are given out in this order."""
    places = {stem: place for place, stem in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONG)))
