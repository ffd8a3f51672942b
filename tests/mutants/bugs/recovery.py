"""Bugs in what goes on after a site lost what it knew: generations, islands, pins, logs, records."""

from __future__ import annotations

from tests.mutants.edits import (
    argument,
    assigned,
    begin,
    condition,
    drop,
    returned,
    swap,
    value,
)
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "HeadWay": "test_head_way test_recovery",
    "HeadCursor": "test_head_cursor test_recovery",
    "CatchUp": "test_head_cursor test_recovery",
    "Barrier": "test_barrier",
    "Arrangements": "test_catch_up test_head_cursor",
    "RowTable": "test_table test_recovery",
    "HeadLedger": "test_sink test_recovery",
    "Participant": "test_recovery test_opening test_sharing",
    "": "test_recovery",
}

MUTANTS = (
    # -- generations
    bug("a generation is not fenced", "Participant.prepare", condition("generation", "False", at=1)),
    bug("what is said before a fence is taken", "Participant._is_current", begin("return True")),
    bug(
        "a name of a generation is used again after a crash",
        "Issuer._begin_again",
        argument("begin_again", 0, "self._generations"),
    ),
    bug(
        "rows of a void generation are stored",
        "Issuer.store",
        condition("generation", "False"),
        "a second line: rows of others are behind their fences, and what runs at home is voided with its generation",
    ),
    bug("a generation is begun again for a loss that is known", "Issuer.on_lost", condition("generation", "False")),
    bug("sites that were ready count for the next generation", "HomeQuery.begin_again", drop("clear")),
    bug("a generation is prepared beside the one before", "Participant.prepare", drop("_void")),
    bug("a lost session is not told to home", "Participant._lose", drop("send")),
    bug(
        "home does not hear of a peer that lost its state",
        "Issuer.peer_lost",
        begin("return"),
        "a second line: home takes part in its queries, loses them with the peer, and tells itself",
    ),
    bug("a restarted holder is told of copies of its former life", "Participant.peer_lost", drop("holder_lost")),
    # -- islands, and where heads begin
    bug("islands are walked again", "Sink.islands", returned("()")),
    bug("walks that are being stored are no islands", "HeadLedger.islands", value("_taken", "_o._stored")),
    bug("what an earlier life stored is unknown", "HeadLedger.found", begin("return")),
    bug("a head begins one tick late", "HeadWay.spans", value("max()", "_ + 1", at=0)),
    bug("a head begins one tick early", "HeadWay.spans", value("max()", "max(_0, _1 - 1)", at=0)),
    bug("a part of a batch has its neighbour's rows", "HeadWay.part", returned("rows")),
    bug("a head that is behind begins with its table", "QueryRun._follow_log", begin("return")),
    bug("a head that is behind has batches twice", "QueryRun.on_batch", condition("_cursors", "True", at=0)),
    bug("a cursor has its first batch whole", "CatchUp._feed", assigned("part", "sealed", at=1)),
    bug("a cursor goes beyond its table", "CatchUp._feed", condition("is_behind", "False")),
    # -- pins and logs
    bug("pins are moved by what is not kept", "Participant._move_pins", condition("kept_done", "True")),
    bug("pins do not reach back by the window", "RowTable.begin_ts", returned("own", at=1)),
    bug("pins of count windows go by what is done", "RowTable.begin_ts", returned("own", at=3)),
    bug("pins are not removed", "Participant.close", drop("_unpin")),
    bug("a pin is not kept", "Participant._pin", drop("do")),
    bug("pins of an earlier life are forgotten", "Participant.recover", drop("pin")),
    bug("a log is not checked", "StreamState.check_log", begin("return")),
    bug("a log that lost what was delivered is taken", "StreamState.check_log", swap("<", ">")),
    bug("a log is cut under who reads it", "Arrangements._pinned_ts", value("behind()", "()")),
    # -- records
    bug("done is told before it is kept", "Issuer._tell_done_of", drop("_keep_done")),
    bug("the first tick is not kept", "Issuer.on_prepared", drop("_keep")),
    bug("the end is not kept", "Issuer._ends", drop("_keep")),
    bug("a query that was issued is not kept", "Issuer.issue", drop("_keep")),
    bug("frames leave before their records", "Barrier.put", condition("_held", "False")),
    bug("one record lets all go", "Barrier.written", drop("_durable", at=1)),
    # -- what is over
    bug("who returns is not told that a query is over", "Issuer.on_returned", drop("send")),
    bug("nobody asks whether a pin is needed", "Participant.return_pins", begin("return")),
    bug("a query by policy delta goes on", "Issuer._begin_again", condition("policy", "False")),
    bug("ended queries begin again with their home", "Issuer.begin_again_all", condition("ended", "False")),
)
