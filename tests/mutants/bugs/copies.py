"""Bugs in copies: full ones, W', V and M, their leases, claims and forgetting."""

from __future__ import annotations

from tests.mutants.edits import (
    argument,
    assigned,
    begin,
    condition,
    constant,
    drop,
    last,
    returned,
    swap,
    value,
)
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "held_copies": "test_held_copies copies/test_copies",
    "HeldCopies": "test_held_copies copies/test_copies",
    "Claim": "test_owned_copies copies/test_copies test_wrong_peers",
    "OwnedCopy": "test_portions test_owned_copies",
    "sm_s1": "test_halves",
    "OwnedCopies": "test_owned_copies test_portions copies/test_copies",
    "portions": "test_portions copies/test_copies test_sharing",
    "Portions": "test_portions copies/test_copies test_sharing",
    "Passes": "test_portions copies/test_copies test_sharing",
    "FullOwner": "test_portions copies/test_copies test_sharing",
    "FullTable": "test_portions copies/test_copies test_sharing",
    "FullHolder": "test_portions copies/test_copies test_sharing",
    "CatchUp": "test_catch_up test_syncs",
    "Arrangements": "test_syncs test_owned_copies copies/test_copies test_sharing",
    "": "test_syncs test_held_copies copies/test_copies",
}

MUTANTS = (
    # -- what is needed of a copy
    bug(
        "a copy forgets under a frozen lease",
        "needed_number",
        condition("frozen", "not leases"),
        "equivalent: until it starts a lease is done with nothing, so it needs all that is there",
    ),
    bug("a copy is kept for the shortest window", "needed_number", value("min()", "max(found)")),
    # -- W'
    bug("every match is shipped again", "ReducedOwner.unsent", returned("_ | True")),
    bug("the bits of tuples are those of their neighbours", "ReducedOwner.unsent", argument("get", 0, "_ + 1")),
    bug("what did not leave counts as sent", "sm_s1.Destination.answered", last("send")),
    bug("bits are never dropped", "ReducedOwner.forget_before", begin("return")),
    bug("W' does not say what it forgot", "ReducedHolder.settle", drop("kept_from")),
    bug("a lease before what W' keeps uses it", "ReducedHolder.reaches_back_to", begin("return True")),
    # -- V and what M has of it
    bug("a key dies with its first tuple", "KeyCounts.forget_before", swap("==", ">=")),
    bug("deaths after the end of a stream are not sent", "KeysOwner.settle", begin("return")),
    # -- M
    bug("new tuples of full keys are not sent", "MixedOwner.take", assigned("full", "_[:0]", at=1)),
    bug("a key in a new life is still full at the owner", "MixedOwner._send", drop("clear")),
    bug("a fetch that crossed a sync is taken as it is", "MixedOwner._meant", value("&", "_0")),
    bug("an answer that crossed a sync is taken as it is", "MixedHolder.on_fetched", value("&", "_0")),
    bug(
        "nobody waits for another's fetch",
        "MixedHolder.fetch",
        value("max()", "self._fetch_count if len(unasked) else 0"),
    ),
    bug("M keeps what its window forgot", "MixedHolder.on_sync", condition("before", "False")),
    bug("what is forgotten is fetched", "MixedOwner.found", assigned("live", "np.arange(len(numbers))")),
    # -- full copies
    bug("no heartbeat for empty batches", "FullOwner.take", begin("if not len(sealed): return")),
    bug("what a query needs of a full copy is not sent", "OwnedCopies._hold", drop("add")),
    bug("what nobody needs of a full copy any more is sent on", "OwnedCopies._let_go", begin("return")),
    bug("a query goes on without what it needs", "FullHolder._has", returned("True")),
    bug("tuples that do not pass are taken for one's own", "FullTable.where", returned("None")),
    bug("a copy is taken for any query", "OwnedCopy.takes", returned("True")),
    bug("a filter has another number for each query", "portions.numbered", assigned("known", "{}")),
    bug("a tuple is in its neighbour's portion", "portions.is_in", constant(">=", "<")),
    bug("columns travel for those who do not need them", "Portions.encode", assigned("places", "chosen", at=1)),
    bug("what passes is not known where walks start", "Passes.places", begin("return None")),
    # -- which copy a query uses
    bug("a full copy that starts walks is shared too late", "held_copies._is_right", assigned("in_time", "True")),
    bug("a copy is shared whose owner was past the start", "held_copies._is_right", condition("prepared_at", "False")),
    bug("a full copy is shared that forgot what is needed", "held_copies._is_right", returned("in_time", at=1)),
    bug("copies under policy delta are shared", "HeldCopies.candidates", condition("_private", "True")),
    # -- claims
    bug("no copy is held from Prepare on", "OwnedCopies.claim", drop("_hold")),
    bug("claims do not hold new copies", "OwnedCopies.open", drop("_hold")),
    bug("a copy is opened that is not what its query needs", "OwnedCopies.open", drop("check")),
    bug("who is to open a copy uses one of others", "Claim.check_lent", condition("leases", "False")),
    bug("a lost query opens a copy of what is gone", "OwnedCopies.open", assigned("message", "message", at=0)),
    bug("what follows a gap is taken for the next", "OwnedCopies.post", condition("_broken", "False")),
    bug("who leases a copy that misses something goes on", "OwnedCopies.settle_claim", condition("_broken", "False")),
    bug("a fetch that fails leaves its copy as it is", "Arrangements.on_not_found", drop("break_off")),
    bug("a gap in the log ends who only may use a copy", "CatchUp._give_up", condition("OwnedCopy", "False")),
    bug("what a copy waits for is kept when its holder is lost", "Arrangements._close", drop("forget")),
    bug("a batch is sent that the other half refuses", "Portions.encode", drop("check_fits")),
    # -- all arrangements
    bug("who waited for a table is forgotten", "Arrangements.on_batch", last("woken")),
    bug("a log is read for W' before its start is known", "CatchUp._readable", condition("frozen", "False")),
    bug("a log is read for W' beyond its tables", "CatchUp._readable", value("min()", "TICK_END")),
    bug(
        "a fetch holds nothing while the engine looks",
        "Arrangements._search",
        drop("hold"),
        "equivalent: an engine works in order, and the copy itself knows the positions of what is found",
    ),
    bug("a fetch is answered for those alone who lease", "Arrangements._searched", assigned("prepared", "set()")),
    bug("no fetchable tuple is kept", "OwnedCopies.keep_fetchable", drop("floor")),
    bug("the log is trimmed below claims", "Arrangements._pinned_ts", assigned("begun", "[]")),
    bug("bits are forgotten for tuples that are kept", "Arrangements._forget", argument("forget_before", 0, "_ + 1")),
)
