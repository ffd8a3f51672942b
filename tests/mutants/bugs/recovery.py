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
    "HeldCopies": "test_sharing_again",
    "LocalTables": "test_sharing_again",
    "QueryLeases": "test_sharing_again",
    "OwnedCopies": "test_sharing_again",
    "Lagging": "test_lagging",
    "QueryRun": "test_recovery test_lagging test_sharing_again",
    "Issuer": "test_recovery test_beginning test_lagging test_sharing_again",
    "HomeQuery": "test_recovery test_beginning test_looking_back test_lagging",
    "HeadCursor": "test_head_cursor test_recovery",
    "CatchUp": "test_head_cursor test_recovery",
    "Barrier": "test_barrier",
    "Arrangements": "test_catch_up test_head_cursor test_sharing_again",
    "RowTable": "test_table test_recovery",
    "query_id": "test_lives",
    "HeadLedger": "test_sink test_recovery",
    "Participant": "test_recovery test_opening test_sharing test_sharing_again test_lagging test_wrong_peers",
    "RunEnds": "test_recovery test_opening test_sharing test_sharing_again test_lagging test_wrong_peers",
    "Fences": "test_recovery test_opening test_sharing test_sharing_again test_lagging test_wrong_peers",
    "Beginnings": "test_recovery test_opening test_sharing test_sharing_again test_lagging test_wrong_peers",
    "Deliveries": "test_recovery test_sharing test_sharing_again",
    "Pins": "test_recovery test_lagging test_wrong_peers",
    "": "test_recovery",
}

MUTANTS = (
    # -- generations
    bug("a generation is not fenced", "Participant.prepare", condition("generation", "False")),
    bug("what is said before a fence is taken", "Fences.is_current", begin("return True")),
    bug(
        "a name of a generation is used again after a crash",
        "Issuer.begin_again",
        argument("begin_again", 0, "self._generations"),
    ),
    bug(
        "rows of a void generation are stored",
        "Issuer.store",
        condition("generations", "False"),
        "a second line: rows of others are behind their fences, and what runs at home is voided with its generation",
    ),
    bug("a generation is begun again for a loss that is known", "Issuer.on_lost", condition("generation", "False")),
    bug("sites that were ready count for the next generation", "HomeQuery.begin_again", drop("clear", at=0)),
    bug("a generation is prepared beside the one before", "Participant.prepare", drop("void")),
    bug("a lost session is not told to home", "RunEnds.lose", drop("send")),
    bug(
        "home does not hear of a peer that lost its state",
        "Issuer.peer_lost",
        begin("return"),
        "a second line: home takes part in its queries, loses them with the peer, and tells itself",
    ),
    bug("a restarted holder is told of copies of its former life", "Participant.peer_lost", drop("holder_lost")),
    bug(
        "where a query is to begin is forgotten at a crash",
        "HomeQuery.recovered",
        argument("cls", "beginning", "type(record.prepare.beginning)()"),
    ),
    bug(
        "tuples are dropped with the generation that asked for them",
        "Deliveries.on_step",
        begin(
            "if message.query_id not in self.runs "
            "or not self._is_current(peer, self.runs[message.query_id], message): return"
        ),
    ),
    bug(
        "a book of keys is kept over a generation",
        "FindingDestination.__init__",
        value("KeyBook()", "globals().setdefault(f'{id(site.desk.limits)} {site.desk.query_id} {step}', _)"),
    ),
    bug(
        "a copy that is opened for what is over is of no generation",
        "Fences.forget",
        condition("but", "place[1] != run_id"),
    ),
    # -- islands, and where heads begin
    bug(
        "a head that has read all forgets what it read",
        "QueryRun.on_past_batch",
        condition("is_behind", "not cursor.is_behind"),
    ),
    bug("islands are walked again", "Sink.islands", returned("()")),
    bug("walks that are being stored are no islands", "HeadLedger.islands", value("_taken", "_o._stored")),
    bug("what an earlier life stored is unknown", "HeadLedger.found", begin("return")),
    bug("a walk is stored as often as it comes", "HeadLedger.take", returned("True", at=0)),
    bug("done goes one tick too far", "HeadLedger.stored", assigned("done", "_ + 1")),
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
    bug("pins are not removed", "RunEnds.close", drop("remove")),
    bug("a pin is not kept", "Pins.keep", drop("do")),
    bug("pins of an earlier life are forgotten", "Pins.recover", drop("pin")),
    bug("a log is not checked", "StreamState.check_log", begin("return")),
    bug("a log that lost what was delivered is taken", "StreamState.check_log", swap("<", ">")),
    bug("a log is cut under who reads it", "Arrangements._pinned_ts", value("behind()", "()")),
    # -- records
    bug("done is told before it is kept", "DoneNews._tell_of", drop("keep_done")),
    bug("the first tick is not kept", "Issuer.start", drop("keep")),
    bug("the end is not kept", "HomeEnds.keep_end", drop("keep")),
    bug("a query that was issued is not kept", "Issuer.add", drop("keep")),
    bug("done is kept in memory alone", "HomeRecords.keep_done", drop("do")),
    bug("one record lets all go", "Barrier.written", drop("_durable", at=1)),
    bug("frames wait for a connection that is gone", "Barrier.closed", begin("return")),
    bug("a connection that is to end at once waits for the disk", "Barrier.put", condition("at_once", "False")),
    bug("done is told with a generation before it is kept", "HomeRecords.keep_news", begin("return")),
    bug("what was dropped stays in the records", "Issuer.recover", drop("forget")),
    bug("a query whose rows are broken goes on", "Issuer.recover", condition("broken", "False")),
    # -- queries that share again
    bug("a copy is opened for its first query alone", "HeldCopies._begin_of", begin("return wanted.tick")),
    bug("a table is filled for its first query alone", "LocalTables._begin_of", begin("return tick")),
    bug("who goes on finds no copy", "HeldCopies.find", condition("is_own", "wanted.private or wanted.is_resumed")),
    bug("who goes on shares what may have forgotten", "HeldCopies.find", condition("_is_right", "True")),
    bug("a start does not wait for fences", "Beginnings.take_start", assigned("others", "[]")),
    bug("a generation that is void here is not fenced off", "RunEnds.fence_off", begin("return")),
    bug("others go on when a site has voided a generation", "Participant.on_fence", drop("lose")),
    bug("who may wait for long holds what there is", "Issuer._waits_long", begin("return False")),
    bug("a cursor drops what came with its last batch", "QueryRun.on_past_batch", condition("is_behind", "True")),
    bug("M is searched before its table is filled", "Arrangements._is_searchable", begin("return True")),
    # -- queries that lag
    bug("a query that lags stops others", "RunEnds.void_lagging", begin("return")),
    bug("a query lags although it stops nobody", "Lagging._stops_others", returned("True", at=1)),
    bug("a query lags at once", "Lagging.patience_us", begin("return 0")),
    bug("a slow query is never given longer", "Lagging.voided", begin("return")),
    bug("a query begins again while its rows cannot be stored", "HomeQuery._is_stuck", begin("return False")),
    bug("a query whose rows are stored waits for ever", "Issuer.on_rows_stored", condition("is_waiting", "False")),
    bug("who is ready does not wait for its links", "Beginnings.say_ready", value("away()", "()")),
    bug("who is ready has not met all others", "Beginnings.say_ready", assigned("unmet", "[]")),
    bug("who catches up stops others", "StreamState.wants_more", value("is_behind()", "False")),
    # -- names
    bug("a name of a query is used again after a crash", "query_id.new_query_id", value("_short()", "_short(1)")),
    # -- what is over
    bug("who returns is not told that a query is over", "Issuer.on_returned", drop("send")),
    bug("nobody asks whether a pin is needed", "Pins.return_to", begin("return")),
    bug("a query by policy delta goes on", "Issuer.begin_again", condition("policy", "False")),
    bug("ended queries begin again with their home", "Issuer.begin_again_all", condition("ended", "False")),
)
