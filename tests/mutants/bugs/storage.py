"""Bugs in logs on disk: what is durable, what is found again, what may be cut off."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, begin, drop, last, returned, swap, test, value, without
from tests.mutants.mutant import bug

#: Where a unit test should notice them.
TESTS = (
    "tests/unit/test_disk_log.py",
    "tests/unit/test_log_records.py",
    "tests/unit/test_storage.py",
    "tests/unit/test_append_log.py",
)

MUTANTS = (
    bug("a record's head is not checked", "record.decode_head", test("crc", "False")),
    bug("a record's body is not checked", "record.is_whole", without("crc32")),
    bug("a record is cut off and not missed", "record.is_whole", without("body_bytes")),
    bug("times are in the checksum and rows are not", "record.encode_record", value("crc32()", "_1", at=0)),
    bug("a cut column is written whole", "record._rows_bytes", drop("rows")),
    bug("dictionaries are not written", "record.has_dictionary", returned("False")),
    bug("damage is taken for an end", "segment._was_synced", returned("False", at=0)),
    bug("damage within a log is taken for its end", "segment.read_segment", test("last", "False")),
    bug("a gap within a segment is not seen", "segment.read_segment", without("end_tick", at=0)),
    bug("a record without a durable place is proof", "segment._was_synced", without("synced")),
    bug("a segment's head is not checked", "segment._read_head", test("padding", "False")),
    bug("another version is read", "segment._read_head", test("VERSION", "False")),
    bug("a record is found by the tick after it", "Segment.place_of", value("tick", "_ - 1")),
    bug("a gap between segments is not seen", "DiskLog.recover", test("end_tick", "False")),
    bug("a torn tail stays", "DiskLog._cut_tail", test("cut_bytes", "False")),
    bug("a torn tail is cut and not synced", "DiskLog._cut_tail", drop("sync")),
    bug("unfinished segments stay", "DiskLog.recover", drop("remove")),
    bug("BatchLogged before it is synced", "DiskLog._sync_written", drop("_sync")),
    bug("a segment has its name before its head", "DiskLog._new_segment", drop("_sync", at=0)),
    bug("a segment's name is not synced", "DiskLog._new_segment", drop("_sync", at=1)),
    bug("a new segment before the old one is synced", "DiskLog._write", drop("_sync_written")),
    bug("what was written of a failed group stays", "DiskLog._undo", drop("truncate")),
    bug("a cut is not synced", "DiskLog._undo", drop("sync")),
    bug("a failed sync is tried again", "DiskLog._sync", drop("_failed")),
    bug("a failed write is used on", "DiskLog.commit", drop("_undo")),
    bug("a reader gets one piece of each segment", "DiskLog.read_from", drop("break", at=1)),
    bug("a reader gets the first segment", "DiskLog.read_from", assigned("number", "0")),
    bug("a log is trimmed one batch too far", "DiskLog.trim", value("tick", "_ + 1")),
    bug("a segment goes while it is needed", "DiskLog.trim", swap("<=", ">=")),
    bug("the last segment goes too", "DiskLog.trim", value("len()", "_ + 1")),
    bug("removals are not synced", "DiskLog._remove_oldest", drop("_sync")),
    bug("damage is not seen when it is read", "DiskLog._read", test("head", "False")),
    bug("the log without a disk trims one too far", "MemoryLog.trim", value("bisect_right()", "_ + 1")),
    bug("BatchLogged though the commit failed", "StreamLogs._commit", returned("[BatchLogged(stream, kept.frontier), *failure]")),
    bug("a stream is logged on after a failure", "StreamLogs._commit", drop("_failed")),
)
