"""Found by seed 5401 of the simulator: the judge did not know of tuples that are fetched before they can be found.

A copy of keys and tuples (M) was opened by a query that goes on. Its owner was asked for tuples while its table was
being filled from the log, piece by piece; it answers when that is done. The judge of invariant 11 looked for the
question on the link, in the engine and among the answers, and took it for lost. Rows were right.
"""

from __future__ import annotations

from tests.sim.check import check, scenario_of


def test_a_fetch_that_waits_for_a_table_is_not_lost() -> None:
    check(scenario_of(5401))
