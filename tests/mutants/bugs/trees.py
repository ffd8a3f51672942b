"""Bugs in joins that are kept: how a query becomes two, and how one's rows are the other's stream."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, begin, condition, drop, value
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "kept": "model/test_kept",
    "outer_query": "model/test_kept",
    "event_time": "model/test_kept",
    "StreamLogs": "test_kept_logs",
    "": "test_kept_joins",
}

MUTANTS = (
    # -- one query as two
    bug("a component's window is not checked", "kept._visible", begin("return []")),
    bug("a component's window is that of the kept join", "kept._visible", value("length()", "_ * 2")),
    bug("a kept join is seen for the time of its longest window", "outer_query", value("min()", "0")),
    bug("seconds are taken for milliseconds", "event_time", assigned("scale", "1", at=0)),
    # -- beginning
    bug("a kept join begins with a tick of its own", "HomeQuery.start", condition("_begins_with", "False")),
    bug("a query is ready before its kept joins are", "KeptJoins.are_ready", begin("return True")),
    bug("a kept join never begins", "KeptJoins.begin", begin("return")),
    # -- rows
    bug("a batch has rows of later ticks", "KeptSink.batch", assigned("before_ts", "_ + 7")),
    bug(
        "a batch ends where one head is",
        "KeptSink.walked",
        value("min()", "max(one.walked for one in self._ledgers.values())"),
    ),
    bug("what is in no batch is forgotten", "KeptSink.batch", drop("append", at=0)),
    bug("done is what was taken", "KeptSink.logged", argument("done_to", 0, "ledger.walked")),
    bug("a walk is done when its first part is", "KeptLedger.done_to", condition("end", "False")),
    bug("sources wait for what is done", "KeptSink.tell_taken", begin("return False")),
    bug("after a crash what the log has is made again", "HomeQuery.kept_as", assigned("tick", "self.first_tick")),
    # -- the end
    bug("what is kept outlives its query", "KeptJoins.forget", begin("return")),
    bug("a query waits for a kept join that failed", "RunEnds.end_broken", begin("return")),
    bug("the log of a kept join stays", "StreamLogs._remove", drop("remove")),
)
