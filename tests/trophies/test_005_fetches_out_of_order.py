"""Fetched tuples were taken for those of another question.

A holder of M fetches the tuples of some keys, and answers come in the order of the questions. The owner asked its
engine for the tuples of the first Fetch. The second one named keys that had died meanwhile, so there was nothing to
find, and it was answered at once, before the first. The holder took the empty answer for the first one: keys counted
as full whose tuples were not there, and rows were missing. Found by the judge of copies with twelve queries at once.
"""

from tests.sim.check import check
from tests.sim.scenarios.crowd import crowd_of


def test_a_fetch_that_finds_nothing_does_not_overtake_one_that_is_being_answered() -> None:
    check(crowd_of(189))
