"""For all tests: what they inherit from the shell is set aside, and files that take minutes come first."""

from __future__ import annotations

import signal

import pytest

#: So that none of them is left alone at the end.
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


def pytest_configure() -> None:
    """Processes that tests start must not ignore what the shell ignores: SIGHUP under nohup, SIGINT behind &."""
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With --dist loadfile whole files are given out in this order."""
    places = {stem: place for place, stem in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONG)))
