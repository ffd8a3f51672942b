"""Found by seed 7765 of the simulator: an honest holder was blamed for opening a copy.

bow lost a generation of q8 when ash was restarted, and said so. Home began another one, and dropped the query before
ash had heard bow speak of that. ash took what bow had lost for the new generation, expected no copy for it any more,
and blamed bow when it came. A fence without a generation is about the one before it, not about one that is to come.
"""

from __future__ import annotations

from tests.sim.check import check, scenario_of


def test_what_a_holder_has_lost_is_not_a_generation_of_which_it_has_not_heard() -> None:
    check(scenario_of(7765))
