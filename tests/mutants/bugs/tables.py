"""Bugs in the tables of streams: what is kept, what rows see, who waits."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, begin, condition, drop, returned, swap, then, value, without
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "RowTable": "test_table",
    "Ordinals": "test_ordinals",
    "Passing": "test_ordinals test_table",
    "Progress": "test_progress",
    "Reach": "test_reach",
    "_divided_up": "test_reach",
    "Lease": "test_lease test_delta",
    "done_with": "test_lease",
    "LogReaders": "test_catch_up test_stream_log",
    "LocalTables": "test_catch_up test_stream_log test_sharing",
    "": "test_catch_up test_table test_stream_log",
}

MUTANTS = (
    # -- RowTable
    bug("a table forgets under a frozen lease", "RowTable.settle", condition("frozen", "False")),
    bug("a table forgets one row too many", "RowTable.settle", assigned("before", "_ + 1")),
    bug("leases with count windows are forgotten", "RowTable._needed_from", condition("passed", "False")),
    bug("a table forgets what copies may be asked for", "RowTable._needed_from", condition("floor", "False")),
    bug("a table forgets what a question may find", "RowTable._needed_from", returned("min(found)")),
    bug("an index closes with its first lease", "RowTable._drop_index", condition("_indexes", "False", at=0)),
    bug("a table that begins in the past knows no numbers", "RowTable.take", drop("begin_at")),
    bug("a count window counts what its filter drops", "RowTable._counted_by", returned("None")),
    bug("rows see what was before their query's first tick", "RowTable.bounds", value("maximum()", "_0", at=0)),
    bug(
        "the log forgets under a frozen lease",
        "RowTable.begin_ts",
        condition("frozen", "False"),
        "equivalent: until it starts a lease is done with nothing, so it pins the lowest tick",
    ),
    bug("the log forgets what is not done", "RowTable.begin_ts", assigned("own", "TICK_END")),
    # -- Ordinals
    bug("forgotten times are said to be known", "Ordinals.forget_before", drop("known_from")),
    bug("what passed is forgotten one too early", "Passing.forget_before", argument("pop", 0, "_ + 1")),
    bug("too few are not missed", "Passing.lacks", returned("False")),
    # -- Progress
    bug("only the first that waits is released", "Progress.release", then("append", "break")),
    bug("all that wait are released", "Progress.release", condition("_waiting", "self._waiting")),
    bug("released one time unit early", "Progress.release", swap("<", "<=")),
    # -- Reach and Lease
    bug("coarser times are rounded down", "_divided_up", assigned("rounded", "values // divisor")),
    bug("a window is forgotten one time unit early", "Reach.before", value("//", "_ - 1")),
    bug("delta forgets a tick early", "Lease.passed_ts", value("-", "_0 + progress.tau", at=1)),
    bug("a stream is forgotten by its own head", "done_with", swap("!=", "==")),
    # -- LocalTables
    bug(
        "a table that reads the log counts as live",
        "LocalTables.live",
        without("behind"),
        "equivalent: whoever reads the log is behind the stream",
    ),
    bug(
        "a batch is not cut to what a table wants",
        "LocalTables.take",
        assigned("part", "sealed"),
        "equivalent: a table that takes sealed batches stands at the end of one; only what is read from a log is cut",
    ),
    bug(
        "tuples are forgotten that another table has",
        "LocalTables.lowest_kept",
        value("min()", "max(_0, default=None)"),
    ),
    # -- the log
    bug("a reader that is told to wait is forgotten", "LogReaders.pause", begin("return")),
    bug("who waits with reading does not hold the log", "LogReaders.behind", returned("reading")),
)
