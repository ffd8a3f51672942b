"""Bugs in queries: how they are prepared, started, walked and ended, at home and elsewhere."""

from __future__ import annotations

from tests.mutants.edits import (
    argument,
    assigned,
    begin,
    condition,
    constant,
    drop,
    instead,
    returned,
    swap,
    then,
    value,
    without,
)
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "QueryLeases": "test_installing test_sharing",
    "shape": "test_shape",
    "_head_steps": "test_shape",
    "HeadLedger": "test_sink",
    "Sink": "test_sink",
    "Endings": "test_news",
    "HeldNews": "test_news",
    "Work": "test_forgetting test_site",
    "Participant": "test_wrong_peers test_opening test_site",
    "Runs": "test_wrong_peers test_opening test_site",
    "RunEnds": "test_wrong_peers test_opening test_site",
    "Deliveries": "test_wrong_peers test_opening test_site",
    "CopyOpenings": "test_wrong_peers test_opening test_site",
    "QueryRun": "test_wrong_peers test_site test_installing",
    "": "test_installing test_site test_forgetting",
}

MUTANTS = (
    # -- leases
    bug("no freeze between Prepare and Start", "Lease.frozen", returned("False")),
    bug("copies are not held from Prepare on", "QueryLeases.prepare", drop("hold")),
    bug("a query that begins in the past has the live table", "QueryLeases.start", condition("tick", "False")),
    bug("delta lets tuples go after one delta", "QueryLeases._linger", constant(2, 1)),
    bug(
        "a stream under two names has one lease",
        "QueryLeases._lease_of",
        assigned("wanted", "(step.hop.alias, self._held[0][1].keys)"),
    ),
    bug("done moves no claim", "QueryLeases.on_done", drop("done", at=1)),
    # -- runs
    bug("messages before the start are not kept", "QueryRun._keep_early", drop("append")),
    bug("messages before the start are kept without end", "QueryRun._keep_early", condition("_early_bytes", "False")),
    bug("walks from before the start are taken", "QueryRun.start", drop("on_done")),
    bug("batches before the start are not kept", "QueryRun._keep_early_batch", drop("append", at=0)),
    bug("look-ahead never resumes", "QueryRun.on_done", drop("done", at=0)),
    bug("done may fall", "QueryRun.on_done", condition("tick", "False", at=0)),
    # -- walks
    bug("empty walks are told only beside others", "Walks.tell_endings", without("due")),
    bug("rows with a null key go on", "_matchable", returned("walk")),
    # -- shapes
    bug("ties on the wrong side", "_head_steps", swap("<", ">")),
    bug(
        "heads share copies at other sites",
        "shape.needs",
        assigned("same", "(step.copy, step.hop.alias) == (need.kind, need.alias)"),
    ),
    # -- the participant
    bug("answers of ended walks are taken", "Runs.of_walk", without("generation")),
    bug(
        "answers' tuples are dropped with an old walk",
        "Deliveries.on_step",
        begin("if self._runs.find(message) is None: return"),
    ),
    bug("a failed query is not reported", "RunEnds.fail", drop("send")),
    bug("a peer is blamed for an own walk", "Participant._store", begin("return self._issuer.store(walk)")),
    bug("copies are opened for any query", "CopyOpenings.on_opened", condition("is_expected", "False", at=1)),
    bug("an id of another home is taken", "Participant._check_id", begin("return")),
    bug("a query is taken whose sites cannot be reached", "Participant._plan_of", condition("unlinked", "False")),
    bug("queries of a lost home go on", "RunEnds.peer_lost", drop("void")),
    # -- home and issuer
    bug("start at the earliest frontier", "HomeQuery.earliest", value("max()", "_0")),
    bug("start when the first site is ready", "HomeQuery.prepared", without("waiting_for")),
    bug("start names no frontiers", "HomeQuery.start", argument("Start", 4, "()")),
    bug(
        "done when taken, not when stored",
        "Issuer.store",
        then("do", "self._stored(home, RowsStored(query_id, walk.head, walk.span))", at=1),
    ),
    bug("done is told only beside others", "DoneNews._due_sites", begin("return set()")),
    # -- the sink
    bug(
        "done is the newest, not the contiguous",
        "HeadLedger.stored",
        instead("_stored", "self.done = max(self.done, span.end)", at=0),
    ),
    bug("complete when one head is", "Sink.complete", value("all()", "any(_0)")),
    # -- news that is held
    bug("held news never comes by the clock", "HeldNews.due", without("waited_us", at=1)),
    # -- the engine's questions
)
