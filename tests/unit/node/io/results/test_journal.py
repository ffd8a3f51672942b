"""What is noted of a query is known after a crash, and the file does not grow without end."""

from __future__ import annotations

import errno
import random
from contextlib import suppress

import pytest

from node.io.results.journal import JOURNAL_NAME, Facts, Journal
from node.storage.errors import StorageError
from tests.sim.disk import PowerLostError, SimulatedDisk

GROWTH = 600


def note(journal: Journal, number: int) -> None:
    """One fact, which counts instead of all before it."""
    journal.append({"number": number})


def last(facts: list[Facts]) -> int:
    return int(facts[-1]["number"]) if facts else -1


def test_of_notes_about_the_same_the_last_counts_and_what_was_forgotten_is_gone() -> None:
    disk = SimulatedDisk(random.Random(0))
    for growth in (GROWTH, 0):  # as it was noted, and written anew
        journal = Journal(lambda: disk, growth)
        journal.recover()
        for number in range(3):
            journal.append({"query": "q"}, {"reader": "a", "place": number}, {"state": number})
            journal.append({"reader": "b", "place": number})
            journal.append({"reader": "c", "place": number}, {"forgotten": "c"})
        journal.append({"forgotten": "b"})
        journal.commit()
        found = Journal(lambda: disk).recover()
        assert found == [{"query": "q"}, {"reader": "a", "place": 2}, {"state": 2}]
    assert Journal(lambda: SimulatedDisk(random.Random(0))).recover() == []


def test_what_a_journal_begins_with_is_there_as_a_whole_or_not_at_all() -> None:
    for operation in range(8):
        disk = SimulatedDisk(random.Random(operation))
        disk.operations_left = operation
        with suppress(PowerLostError):
            Journal(lambda disk=disk: disk).append({"query": "q"}, {"state": 0}, {"reader": "a"})  # type: ignore[misc]
        disk.crash()
        assert len(Journal(lambda disk=disk: disk).recover()) in (0, 3)  # type: ignore[misc]


def test_it_is_written_anew_when_it_has_grown() -> None:
    disk = SimulatedDisk(random.Random(0))
    journal = Journal(lambda: disk, GROWTH)
    for number in range(500):
        note(journal, number)
        journal.commit()
        assert disk.size(JOURNAL_NAME) < 2 * GROWTH
    again = Journal(lambda: disk, GROWTH)
    assert last(again.recover()) == 499
    note(again, 500)
    again.commit()
    assert last(Journal(lambda: disk).recover()) == 500


def live(disk: SimulatedDisk, seed: int) -> tuple[int, int]:
    """Until the power is lost: the last that was confirmed, and the last that was noted."""
    rng, journal = random.Random(seed), Journal(lambda: disk, GROWTH)
    confirmed = noted = -1
    try:
        for number in range(80):
            note(journal, noted := number)
            if rng.random() < 0.5:
                journal.commit()
                confirmed = number
    except PowerLostError:
        pass
    return confirmed, noted


def test_a_crash_at_every_operation_keeps_what_was_confirmed() -> None:
    whole = SimulatedDisk(random.Random(0))
    live(whole, 0)
    for operation in range(whole.operations):
        for seed in range(3):
            disk = SimulatedDisk(random.Random(operation * 10 + seed))
            disk.operations_left = operation
            confirmed, noted = live(disk, 0)
            disk.crash()
            journal = Journal(lambda disk=disk: disk, GROWTH)  # type: ignore[misc]
            found = last(journal.recover())
            assert confirmed <= found <= noted
            note(journal, 1_000)
            journal.commit()
            disk.crash()
            assert last(Journal(lambda disk=disk: disk).recover()) == 1_000  # type: ignore[misc]


def test_damage_is_refused_with_its_place() -> None:
    disk = SimulatedDisk(random.Random(0))
    journal = Journal(lambda: disk)
    for number in range(5):
        note(journal, number)
        journal.commit()
    disk.flip(JOURNAL_NAME, 40, 0)
    with pytest.raises(StorageError, match=rf"{JOURNAL_NAME} at byte 16 required a whole record; got damaged bytes"):
        Journal(lambda: disk).recover()


def test_a_full_disk_takes_no_half_note() -> None:
    disk = SimulatedDisk(random.Random(0))
    journal = Journal(lambda: disk)
    note(journal, 0)
    for room in range(60):
        disk.room = room
        with pytest.raises(OSError, match="No space left"):
            note(journal, 1)
    disk.room = None
    note(journal, 2)
    journal.commit()
    assert Journal(lambda: disk).recover() == [{"number": 2}]


def test_after_a_sync_that_failed_nothing_is_noted_any_more() -> None:
    disk = SimulatedDisk(random.Random(0))
    journal = Journal(lambda: disk)
    note(journal, 0)
    note(journal, 1)
    disk.sync_error = errno.EIO
    for attempt in (journal.commit, journal.commit, lambda: note(journal, 2)):
        with pytest.raises(StorageError, match="Input/output error"):
            attempt()
