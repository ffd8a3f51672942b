"""Bugs in logs on disk: what is durable, what is found again, what may be cut off."""

from __future__ import annotations

from tests.mutants.edits import assigned, condition, drop, returned, value, without
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "record": "test_record",
    "segment": "test_record test_disk_log",
    "StreamLogs": "test_stream_logs",
    "MemoryLog": "test_disk_log test_stream_logs",
    "site_records": "test_site_records",
    "lives": "test_site_records",
    "Link": "test_newcomers",
    "given_up": "test_damage",
    "LogDamage": "test_damage",
    "StreamState": "test_stream_log test_recovery",
    "backup": "test_backup",
    "SiteRecords": "test_site_records",
    "site_folder": "test_site_folder",
    "definition": "test_going_on",
    "Barrier": "test_barrier",
    "StorageThread": "test_storage_thread",
    "LateFiles": "test_going_on test_late_files test_storage_thread",
    "late_files": "test_late_files test_storage_thread",
    "": "test_restart test_disk_log test_stream_logs",
}

MUTANTS = (
    bug("a record's head is not checked", "record.decode_head", condition("crc", "False")),
    bug("damage is taken for an end", "segment.was_synced", returned("False", at=0)),
    bug("a segment's head is not checked", "segment.read_segment_head", condition("padding", "False")),
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
        returned("[BatchLogged(stream, kept.frontier), *failure]", at=0),
    ),
    bug("a stream is logged on after a failure", "StreamLogs._commit", drop("_failed")),
    bug("a full disk loses batches", "StreamLogs._commit", drop("_waiting")),
    bug("batches overtake those that wait for room", "StreamLogs._append", condition("_waiting", "False")),
    bug("the last batch of a log is trimmed", "DiskLog.trim", without("ends")),
    bug("a log forgets how far its source was read", "DiskLog._extent", value("place", "None")),
    bug("what a killed daemon had not synced is taken for durable", "DiskLog._cut_tail", drop("sync")),
    # -- what a site keeps beside its logs
    bug("a life comes twice", "lives.next_life", value("+", "last or 0")),
    bug("a life is not written", "SiteRecords.__init__", value("items()", "[('folder', self.folder)]", 1)),
    bug("a folder does not say which lives it had", "SiteRecords.__init__", assigned("lives", "()", 0)),
    bug("an old copy of a folder is taken", "Link._require_whole_folder", condition("knows_life", "False")),
    bug("a log goes on without saying which ticks are lost", "given_up.give_up", drop("commit")),
    bug("what is damaged is put aside before the rest is safe", "LogDamage.take_out", drop("_rescue")),
    bug("who needs damaged ticks is not told", "StreamState.check_log", condition("damaged", "False")),
    bug("a restored folder is the one that was lost", "backup._begin_anew", drop("begin_folder")),
    bug("queries go on at a home that was restored", "backup._begin_anew", value("ended", "()")),
    bug("lost ticks are forgotten when a site is restored", "StreamState.check_restored", condition("seen", "False")),
    bug("another site's folder is taken", "site_records.check_owner", condition("owner", "False")),
    bug("any version is taken", "site_records.check_folder", condition("READ_VERSIONS", "False")),
    bug("a commit is made in parts", "SiteRecords._transaction", condition("in_transaction", "False")),
    bug("begun anew with the life of before", "site_records.forget_records", value("isdigit()", "False")),
    bug("what a killed --fresh left is gone on with", "site_folder.open_folder", condition("is_forgetting", "False")),
    bug("a log goes on under any definition", "definition.check_definition", condition("logged", "False", at=1)),
    bug("what follows a record does not wait", "Barrier.put", condition("_held", "False")),
    bug("records are told before they are kept", "Barrier.written", condition("_durable", "False")),
    bug("a batch is logged before what is set aside", "StorageThread._set_aside", drop("write")),
    bug("what is set aside is cut off and not synced", "LateFiles._give_up", drop("give_up")),
    bug("a side file that is given up is not synced", "late_files._File.give_up", drop("sync")),
    bug("the name of a side file is not durable", "late_files._File.sync", drop("sync_folder")),
    bug("a side file takes a part of what is written", "late_files._Sink.write", condition("left", "False")),
    bug("what is set aside is forgotten", "LateFiles.aside_after", drop("update")),
)
