"""Bugs in links: what is sent once, in order, and repeated after a cut."""

from __future__ import annotations

from tests.mutants.edits import begin, condition, drop, instead, returned, value, without
from tests.mutants.mutant import Mutant, bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "Link": "test_link test_link_states test_link_histories",
    "Outgoing": "test_link",
    "Incoming": "test_link",
    "_require_life": "test_link",
    "Pace": "test_pace",
    "Stack": "test_stack test_newcomers test_link_histories",
    "": "test_lives",
}

_DUPLICATES = ("Link._on_part", drop("return"))
_NO_RESUME = ("Outgoing.resume", condition("_waiting", "False"))

MUTANTS = (
    Mutant("a link delivers duplicates", (_DUPLICATES, _NO_RESUME)),
    Mutant("a link repeats what the peer has", (_NO_RESUME,)),
    bug("a link accepts a gap", "Incoming.is_known", instead("raise", "self.expects = part.seq")),
    bug("a link acknowledges one too far", "Link._acknowledge_now", returned("_ + 1")),
    bug("a link acknowledges only with messages", "Link.tick", condition("_ack_due_us", "False")),
    bug("a link resumes a restarted peer", "Link._begin", condition("_peer_life", "False")),
    bug("frames of an old connection are heard", "Stack._on_shipment", without("number", at=1)),
    bug("numbers that do not fit are believed", "Link._meet", drop("_check_numbers")),
    bug("a peer that begins a session is not noticed", "Link._check_numbers", condition("knows_session", "False")),
    bug("a reset is not counted", "Link.reset", condition("_peer_life", "False")),
    bug("a reset of the peer is not followed", "Link._meet", condition("knows_us", "False", at=0)),
    bug("a reset keeps what waited", "Link._lose", drop("_out")),
    bug("a reset keeps half a message", "Link._lose", drop("_in")),
    bug("the site is not told of a reset", "Link._lose", drop("lost")),
    bug("an old life is let in", "_require_life", condition("seen", "False")),
    bug("a life is not written down", "Link._on_hello", condition("_remembers", "False")),
    bug("what comes while a life is written down is lost", "Link._receive", drop("append", at=0)),
    bug("a queue has no end", "Link.send", condition("queue_bytes_max", "False")),
    bug("a newcomer is believed at once", "Stack._on_opened", condition("_connections", "True")),
    bug("a stranger is answered", "Stack._may_come_in", begin("return True")),
    bug("a connection that answers is replaced", "Stack._on_shipment", condition("newcomer", "False", at=1)),
    bug("a connection that does not answer stays", "Stack._on_time", condition("owes_answer", "False")),
    bug("pieces leave whatever is on its way", "Pace.may_send", begin("return True")),
    bug("a past begins with many pieces at once", "Pace.begin", begin("return")),
    bug("who is asked does not say what it has", "Link._receive", condition("_ack_due_us", "False")),
    bug("a newcomer waits for ever", "Stack._make_room", begin("return")),
    bug("what was said to the session before is said in the next", "Stack._apply", condition("_events", "False")),
    bug("after a loss the rest of a turn is sent", "Stack._tell_site", drop("add")),
    bug("a life begins again", "next_life", value("+", "_0")),
    bug("two lives have one name", "new_query_id", value("_short()", "0")),
)
