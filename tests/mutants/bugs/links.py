"""Bugs in links: what is sent once, in order, and repeated after a cut."""

from __future__ import annotations

from tests.mutants.edits import begin, condition, drop, instead, returned, value, without
from tests.mutants.mutant import Mutant, bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "Link": "test_link",
    "": "test_stack",
}
MEMORY = "only memory grows"

_DUPLICATES = ("Link._on_part", drop("return"))
_NO_RESUME = ("Link._forget_before", condition("_waiting", "False", at=1))

MUTANTS = (
    Mutant("a link delivers duplicates", (_DUPLICATES, _NO_RESUME)),
    Mutant("a link repeats what the peer has", (_NO_RESUME,)),
    bug("a link accepts a gap", "Link._on_part", instead("raise", "self._expects = part.seq", at=0)),
    bug("a link puts what flew behind what waits", "Link._ground", value("reversed()", "_0")),
    bug("a link acknowledges one too far", "Link._acknowledge_now", returned("_ + 1")),
    bug("a link greets one too far", "Link.opened", value("_expects", "_ + 1")),
    bug("a link acknowledges only with messages", "Link.tick", condition("_ack_due_us", "False")),
    bug("a link delivers parts as messages", "Link._on_part", condition("more", "True")),
    bug("a link does not notice silence", "Link.tick", condition("silence_us", "False")),
    bug("a link counts on with a restarted peer", "Link._meet", drop("_expects")),
    bug("a link resumes a restarted peer", "Link._meet", condition("_peer_session", "False")),
    bug("a link does not say that the peer was restarted", "Link._on_hello", drop("peer_restarted")),
    bug("a link forgets half a message when it is cut", "Link._ground", begin("self._parts = []")),
    bug("frames of an old connection are heard", "Stack._on_shipment", without("number")),
    bug("the end of an old connection ends the new one", "Stack._on_closed", without("number")),
)
