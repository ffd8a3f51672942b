"""Bugs in logs on disk: what is durable, what is found again, what may be cut off."""

from __future__ import annotations

from tests.mutants.edits import condition, drop, returned, value
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "record": "test_record",
    "segment": "test_record test_disk_log",
    "StreamLogs": "test_site_logs",
    "MemoryLog": "test_append_log test_site_logs",
    "": "test_disk_log test_site_logs",
}

MUTANTS = (
    bug("a record's head is not checked", "record.decode_head", condition("crc", "False")),
    bug("damage is taken for an end", "segment._was_synced", returned("False", at=0)),
    bug("a segment's head is not checked", "segment._read_head", condition("padding", "False")),
    bug("a gap between segments is not seen", "DiskLog.recover", condition("end_tick", "False")),
    bug("BatchLogged before it is synced", "DiskLog._sync_written", drop("_sync")),
    bug("a segment has its name before its head", "DiskLog._new_segment", drop("_sync", at=0)),
    bug("a segment's name is not synced", "DiskLog._new_segment", drop("_sync", at=1)),
    bug("a new segment before the old one is synced", "DiskLog._write", drop("_sync_written")),
    bug("a failed sync is tried again", "DiskLog._sync", drop("_failed")),
    bug("a log is trimmed one batch too far", "DiskLog.trim", value("tick", "_ + 1")),
    bug(
        "BatchLogged though the commit failed",
        "StreamLogs._commit",
        returned("[BatchLogged(stream, kept.frontier), *failure]"),
    ),
    bug("a stream is logged on after a failure", "StreamLogs._commit", drop("_failed")),
)
