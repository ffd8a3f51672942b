"""Bugs in streams: how they are sealed, logged, read on and retained."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, begin, condition, drop, then, value, without
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "Sealer": "test_sealer test_restart",
    "StreamState": "test_stream_log test_restart test_site test_beginning",
    "": "test_site",
}

MUTANTS = (
    bug(
        "batches are used before they are logged",
        "Site._on_rows_arrived",
        then("do", "[self._participant.deliveries.on_batch(s) for s in stream.logged(batch.span.end)]", at=1),
    ),
    bug("too little is retained", "StreamState._is_retained", value("_retain", "_ // 2")),
    bug("the log of a recording is trimmed", "StreamState._is_kept", value("_keep_whole", "False")),
    bug("what is kept is where queries begin", "StreamState.earliest", begin("return self.log_begin")),
    bug(
        "a query from the start begins with what is retained",
        "StreamState.begin_of",
        value("whole_from", "_o.earliest", at=0),
    ),
    bug("a time before the log is begun with", "StreamState.begin_of", value("max()", "_1")),
    bug("a time that is to come is not waited for", "StreamState.begin_of", value("wanted_tick()", "min(self.fed, _)")),
    bug("the log is trimmed below pins", "StreamState.trim", condition("needed_ts", "False")),
    bug("the log is trimmed below what is retained", "StreamState.trim", condition("_log", "self._log", at=0)),
    bug("a stream is read on however far ahead it is", "StreamState.wants_more", value("any()", "False", at=1)),
    # -- sealing
    bug("a stream is sealed one tick early", "Sealer._frontier_at", value("//", "_ + 1", at=1)),
    # -- going on
    bug("what was sealed before a restart is sealed again", "Sealer._pass_over", value("frontier", "TICK_MIN")),
    bug("what was set aside is set aside again", "Sealer._pass_over", condition("_aside_before", "False", at=1)),
    bug("the clock does not wait for what was read before", "Sealer.seal", without("_is_behind", at=0)),
    bug("open rows are not read again", "Sealer._place", argument("SourcePlace", 0, "self._next")),
    bug("tuples get their numbers again", "Sealer.__init__", assigned("_sealed_rows", "0")),
    bug("what the log has is forgotten", "StreamState._go_on", drop("extend")),
)
