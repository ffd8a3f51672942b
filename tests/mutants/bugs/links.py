"""Bugs in links: what is sent once, in order, and repeated after a cut."""

from __future__ import annotations

from tests.mutants.edits import condition, drop, instead, returned, without
from tests.mutants.mutant import Mutant, bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "Link": "test_link",
    "": "test_stack",
}

_DUPLICATES = ("Link._on_part", drop("return"))
_NO_RESUME = ("Link._forget_before", condition("_waiting", "False", at=1))

MUTANTS = (
    Mutant("a link delivers duplicates", (_DUPLICATES, _NO_RESUME)),
    Mutant("a link repeats what the peer has", (_NO_RESUME,)),
    bug("a link accepts a gap", "Link._on_part", instead("raise", "self._expects = part.seq", at=0)),
    bug("a link acknowledges one too far", "Link._acknowledge_now", returned("_ + 1")),
    bug("a link acknowledges only with messages", "Link.tick", condition("_ack_due_us", "False")),
    bug("a link resumes a restarted peer", "Link._meet", condition("_peer_session", "False")),
    bug("frames of an old connection are heard", "Stack._on_shipment", without("number")),
)
