"""Bugs in what logs keep: quotas, what gives way at them, and queries that are dropped where they were not issued."""

from __future__ import annotations

from tests.mutants.edits import argument, begin, condition, drop, instead, returned, then, value
from tests.mutants.mutant import Mutant, bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "": "test_quota test_dropping",
    "Participant": "test_dropping test_quota",
    "DiskLog": "test_disk_log",
    "StreamLogs": "test_stream_logs test_quota",
    "LoggedBatches": "test_logged_batches test_quota",
}

MUTANTS = (
    # -- the quota
    bug("a stream is read on at the quota", "Site._read_on", argument("wants_more", 1, "False")),
    bug("the quota is never reached", "Arrangements.logs_full", returned("False")),
    bug("pins give way at the quota", "StreamState.can_forget", returned("bool(self._log)")),
    bug("streams pause before what is retained gives way", "Arrangements._give_way", begin("return")),
    bug("all that is retained gives way at once", "Arrangements._give_way", condition("logs_full", "True")),
    bug("the smallest log gives way first", "Arrangements._give_way", value("max()", "min(giving)")),
    bug("what gave way stays in the log", "Arrangements._give_way", drop("do")),
    bug("what is forgotten still counts", "LoggedBatches.nbytes", value("_gone", "0")),
    bug("what an earlier life logged is not known", "StreamState._go_on", drop("extend")),
    bug("a log has nothing of its last tick", "LoggedBatches._place_after", value("tick_start()", "_ - 1")),
    bug("a batch counts as in memory", "StreamLogs._commit", argument("BatchLogged", 2, "()")),
    bug("a batch counts for its neighbour", "DiskLog.sizes_from", value("place_of()", "max(0, _ - 1)")),
    bug("a full site that nobody needs stays full", "Arrangements.__init__", value("fromkeys()", "{}")),
    # -- dropped elsewhere
    bug("home is not told who dropped it", "RunEnds.drop_here", drop("send")),
    bug("a query that was dropped stays", "RunEnds.drop_here", drop("close")),
    bug("dropped before it is for good", "RunEnds.drop_here", begin("self._outbox.do(ReportDropped(query_id))")),
    bug("a query without a pin is taken", "Pins.kept_begins", condition("has_streams", "False")),
    bug("a site needs a pin without having a stream", "Pins.kept_begins", condition("has_streams", "not is_kept")),
    Mutant(
        "sites hear of the end before it is kept",
        (
            ("HomeEnds.end", instead("keep_end", "home.end(state, reason)")),
            ("HomeEnds.end", then("report_end", "self._records.keep(home)")),
        ),
    ),
    Mutant(
        "sites hear that all is done before it is kept",
        (
            ("DoneNews._tell_of", instead("keep_end", "home.end(QueryState.COMPLETED, home.reason)")),
            ("DoneNews._tell_of", then("report_end", "self._records.keep(home)")),
        ),
    ),
    bug("a drop of another home's query is for home alone", "Site._on_drop", condition("home", "False", at=0)),
    bug("a pin of a stream that is gone", "Pins.recover", value("known", "pin.streams")),
)
