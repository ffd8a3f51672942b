"""Bugs in rows at home: what is durable before it is confirmed, what is forgotten, who is where after a restart."""

from __future__ import annotations

from tests.mutants.edits import begin, condition, drop, returned, swap, value, without
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "Journal": "test_journal results/test_issued_queries",
    "Spool": "test_spool",
    "_FileWriter": "results/test_file_writers",
    "FileWriters": "io/test_backup",
    "Queries": "results/test_issued_queries results/test_delivery",
    "": "test_row_files test_journal test_spool results/test_issued_queries",
}

MUTANTS = (
    bug("rows are confirmed before they are synced", "RowFiles.commit", drop("_sync")),
    bug("a segment of rows before the old one is synced", "RowFiles._new_segment", drop("commit")),
    bug("a segment of rows has its name before its head", "RowFiles._new_segment", drop("_sync", at=0)),
    bug("the name of a segment of rows is not synced", "RowFiles._new_segment", drop("_sync", at=1)),
    bug("a sync of rows that failed is tried again", "RowFiles._sync", drop("_failed")),
    bug("half of what a full disk took stays", "RowFiles._return_to", drop("truncate")),
    bug("a gap between segments of rows is not seen", "RowFiles._read", condition("first_row", "False")),
    bug("a torn tail of rows is not cut", "RowFiles._cut", drop("truncate")),
    bug("a record's pieces are not checked", "results.records._found", condition("check", "False")),
    bug("damaged rows are taken for an end", "results.records._was_synced", returned("False", at=0)),
    bug("damaged rows are given out", "PieceAt.check", condition("nbytes", "False")),
    bug("a note counts before it is synced", "Journal.commit", drop("_sync")),
    bug("a journal has its name before it is synced", "Journal._begin", drop("_sync", at=0)),
    bug("what is dropped comes back with a start", "Journal.drop", begin("return")),
    bug(
        "a segment that could not be removed is left behind",
        "RowFiles.remove",
        value("_leaving[]", "segment.name"),
    ),
    bug("half a note stays on a full disk", "Journal._cut", drop("truncate")),
    bug("a journal that is written anew has not what was noted before", "Journal.append", drop("_latest")),
    bug("a reader that was forgotten is there again", "journal._after", condition("_ENDS", "False")),
    bug("a file is written on behind rows that it has not", "Queries._recover", condition("writes", "False")),
    bug(
        "rows are forgotten when one reader has them",
        "IssuedQuery.forget_taken",
        value("min()", "max(reader.place for reader in self.readers.values())"),
    ),
    bug("a file is cut that is not the one that was written", "_FileWriter._check", condition("_tail", "False")),
    bug("a file is cut that was not made for the query", "_FileWriter._open", condition("_is_own", "False")),
    bug(
        "a file goes on although its site was restored", "FileWriters.start", condition("writes", "reader is not None")
    ),
    bug("a segment goes although walks in it are not done", "Spool._forget", without("spans")),
    bug("a segment goes although rows in it are not taken", "Spool._forget", without("chunks")),
    bug("a walk that is done is told again", "Spool._undone", swap(">", ">=")),
    bug("nothing is held back beyond the quota", "Queries._over_quota", begin('return ""')),
    bug("a restarted site stores on what has ended", "Queries._recover", condition("ended", "False", at=1)),
    bug("a query that lost rows has completed", "Queries._recover", condition("ended", "False", at=0)),
)
