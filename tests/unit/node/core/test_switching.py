"""A query goes over to another plan without a stop: no row is lost, none comes twice, and nobody waits for it."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from node.core.effects import IgnoreReason, QueryState, SwitchState
from node.core.events import ClockAdvanced, DropRequested, ReplanRequested
from node.core.links.messages import Cut, Drop, Failed, Floor, Message, Prepare, Ready, Refused, Switch
from node.core.queries.participation.ended_queries import RUNS_MAX
from node.core.queries.query_id import is_successor
from node.core.streams.ticks import TICK_END
from planner.model.plans import ship_all_plan
from planner.model.query import Algorithm, Policy, PolicyName
from tests.oracle.oracle import Window
from tests.unit.sites import RESTARTED, Cluster

EVERY = pytest.mark.parametrize("after", list(Algorithm))
WINDOWS = pytest.mark.parametrize("window", [("range", 30_000), ("rows", 2)], ids=["time", "count"])
SINKS = pytest.mark.parametrize("sink", ["ash", "bow", "cam"])
GONE_OVER = [(SwitchState.PREPARING, ""), (SwitchState.SWITCHING, ""), (SwitchState.SWITCHED, "")]


def running(algorithm: Algorithm, sink: str = "cam", window: Window | None = None) -> Cluster:
    cluster = Cluster() if window is None else Cluster(window=window)
    cluster.issue(sink, algorithm)
    cluster.settle()
    return cluster


def feed(cluster: Cluster, first: int) -> None:
    """Both streams bring a few rows; nothing of what follows from them has happened yet."""
    cluster.arrive("l", first, first + 4, first + 11, keys=[1, 2, 1])
    cluster.arrive("r", first + 2, first + 4, first + 13, keys=[1, 2, 2])


def finish(cluster: Cluster, first: int) -> None:
    feed(cluster, first)
    cluster.settle()
    cluster.arrive("l", first + 30, ended=True)
    cluster.arrive("r", first + 31, ended=True)
    cluster.settle()


def check_whole(cluster: Cluster) -> None:
    assert (cluster.state, cluster.reason) == (QueryState.COMPLETED, "")
    assert cluster.results() == cluster.oracle() != []
    assert cluster.blamed == []
    assert IgnoreReason.DUPLICATE_WALK not in cluster.ignored, "one plan walks what the other does not"
    assert cluster.leftovers() == []


def check_switch_is_over(cluster: Cluster, query_id: str = "q1") -> None:
    """Whoever watches hears how it ended, and home waits for nothing of it."""
    state, reason = cluster.switches[-1]
    assert state is SwitchState.SWITCHED or (state is SwitchState.GIVEN_UP and reason)
    assert all(site.homes[query_id].switch is None for site in cluster.sites.values() if query_id in site.homes)


def one_by_one(cluster: Cluster) -> Iterator[Message | None]:
    """Everything that is on its way arrives, one thing after the other; what arrived, None for an engine's answer."""
    while True:
        pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
        site = next((site for site, answers in cluster.answers.items() if answers), None)
        if pair is not None:
            yield cluster.deliver(*pair)
        elif site is not None:
            cluster.answer(site)
            yield None
        else:
            return


# -- it goes over -----------------------------------------------------------------------------


@pytest.mark.parametrize("before", list(Algorithm))
@EVERY
def test_a_query_goes_over_to_another_plan_and_has_every_row_once(before: Algorithm, after: Algorithm) -> None:
    if before is after:
        return
    cluster = running(before)
    feed(cluster, 0)
    cluster.settle()
    feed(cluster, 30)
    plan = cluster.replan("cam", after)
    cluster.settle()
    assert cluster.switches == GONE_OVER
    home = cluster.sites["cam"].homes["q1"]
    assert (home.plan, home.switch, home.state) == (plan, None, QueryState.RUNNING)
    finish(cluster, 60)
    check_whole(cluster)


@pytest.mark.parametrize("before", list(Algorithm))
@EVERY
def test_a_new_plan_looks_at_what_was_done_before_it(before: Algorithm, after: Algorithm) -> None:
    """Its site may have had no use for that by the plan before, and have let go of it."""
    if before is after:
        return
    cluster = running(before)
    feed(cluster, 0)
    cluster.settle()
    cluster.replan("cam", after)
    cluster.settle()
    finish(cluster, 20)
    assert cluster.switches == GONE_OVER
    check_whole(cluster)


@EVERY
@WINDOWS
@SINKS
def test_rows_that_come_while_it_goes_over_are_walked_by_one_of_the_plans(
    after: Algorithm, window: Window, sink: str
) -> None:
    """Rows come after each of the first messages in turn."""
    before = Algorithm.SM_D1 if after is Algorithm.SM_S1 else Algorithm.SM_S1
    for steps in itertools.count(0, 2):
        cluster = running(before, sink, window)
        feed(cluster, 0)
        cluster.settle()
        cluster.replan(sink, after)
        happening = one_by_one(cluster)
        happened = sum(1 for _ in itertools.islice(happening, steps))
        feed(cluster, 30)
        cluster.settle()
        finish(cluster, 60)
        assert cluster.switches == GONE_OVER
        check_whole(cluster)
        if happened < steps:
            return


def test_it_can_go_over_again_and_again_and_back() -> None:
    cluster = running(Algorithm.SP_S)
    for number, algorithm in enumerate([Algorithm.SM_D1, Algorithm.SP_D, Algorithm.SP_S]):
        feed(cluster, 30 * number)
        cluster.replan("cam", algorithm)
        cluster.settle()
    assert cluster.switches == GONE_OVER * 3
    finish(cluster, 90)
    check_whole(cluster)


def test_a_cut_may_come_after_news_that_more_is_done() -> None:
    """What b finds after its cut is nothing: bow tells home alone, and that tells ash; the cut of bow comes later."""
    cluster = running(Algorithm.SP_D)
    feed(cluster, 0)
    cluster.arrive("l", 30, keys=[5])
    cluster.arrive("r", 30, keys=[7])
    cluster.settle()
    cluster.replan("cam", Algorithm.SM_D1)
    late = ("bow", "ash")
    for _ in one_by_one(cluster):
        if any(isinstance(message, Cut) for message in cluster.mail[late]):
            break
    cluster.settle_but(late)
    cluster.arrive("l", 100, 150, keys=[5, 6])
    cluster.arrive("r", 100, 150, keys=[7, 8])
    cluster.settle_but(late)
    (run,) = [run for run in cluster.sites["ash"].runs.values() if is_successor(run.query_id)]
    (cut,) = [message for message in cluster.mail[late] if isinstance(message, Cut)]
    assert run.done["b"] > cut.tick
    cluster.settle()
    finish(cluster, 200)
    check_whole(cluster)


def test_both_plans_hear_what_is_done() -> None:
    """Else the new one holds what nobody needs, and seems to lag."""
    cluster = running(Algorithm.SP_D)
    feed(cluster, 0)
    cluster.settle()
    cluster.replan("cam", Algorithm.SP_S)
    while not cluster.sent(Switch):
        cluster.settle_but(("ash", "cam"))
        cluster.deliver("ash", "cam")
    cluster.settle_but(("ash", "cam"))
    before = cluster.sites["bow"].runs["q1"].done["b"]
    feed(cluster, 30)
    cluster.settle_but(("ash", "cam"))
    old, new = cluster.sites["bow"].runs.values()
    assert new.is_successor
    assert new.done == old.done
    assert new.done["b"] > before
    cluster.settle()
    finish(cluster, 60)
    check_whole(cluster)


def test_figures_of_plans_that_are_over_do_not_pile_up() -> None:
    cluster = running(Algorithm.SP_S)
    times = RUNS_MAX + 3
    for number in range(times):
        feed(cluster, 30 * number)
        cluster.replan("cam", Algorithm.SM_D1 if number % 2 == 0 else Algorithm.SP_S)
        cluster.settle()
    assert cluster.switches == GONE_OVER * times
    ash = cluster.sites["ash"]
    assert len({step.query_id for step in ash.step_rows()}) <= RUNS_MAX + 1
    assert len(ash.view_counts()) == RUNS_MAX + 1
    finish(cluster, 30 * times)
    assert sum(view.rows for view in ash.view_counts()) == sum(batch.num_rows for batch in cluster.rows["l"])
    check_whole(cluster)


def test_one_of_several_queries_that_share_goes_over() -> None:
    cluster = running(Algorithm.SP_S)
    cluster.issue("cam", Algorithm.SP_S, "q2")
    cluster.settle()
    feed(cluster, 0)
    cluster.replan("cam", Algorithm.SM_S2, "q2")
    cluster.settle()
    finish(cluster, 30)
    check_whole(cluster)
    assert cluster.results("q2") == cluster.results("q1")


def test_the_plan_before_walks_on_until_all_sites_could_go_on_with_the_other() -> None:
    cluster = running(Algorithm.SP_D)
    feed(cluster, 0)
    cluster.settle()
    cluster.replan("cam", Algorithm.SP_S)
    for _ in one_by_one(cluster):
        if any(isinstance(message, Ready) for message in cluster.mail["bow", "cam"]):
            break
    (ready,) = cluster.mail["bow", "cam"]
    cluster.mail["bow", "cam"].clear()
    cluster.settle()
    count = len(cluster.results())
    feed(cluster, 30)
    cluster.settle()
    assert cluster.switches == GONE_OVER[:1]
    assert len(cluster.results()) > count, "rows come by the plan before"
    cluster.mail["bow", "cam"].append(ready)
    cluster.settle()
    assert cluster.switches == GONE_OVER
    finish(cluster, 60)
    check_whole(cluster)


def test_streams_that_end_while_it_goes_over_end_it() -> None:
    for steps in itertools.count():
        cluster = running(Algorithm.SP_D)
        feed(cluster, 0)
        cluster.settle()
        cluster.replan("cam", Algorithm.SP_S)
        happened = sum(1 for _ in itertools.islice(one_by_one(cluster), steps))
        cluster.arrive("l", 30, ended=True)
        cluster.arrive("r", 31, ended=True)
        cluster.settle()
        check_whole(cluster)
        check_switch_is_over(cluster)
        if happened < steps:
            return


def test_the_plan_that_a_query_went_over_to_is_there_after_a_crash_of_its_home() -> None:
    cluster = running(Algorithm.SP_S)
    feed(cluster, 0)
    plan = cluster.replan("cam", Algorithm.SM_S1)
    cluster.settle()
    cluster.restart("cam")
    cluster.settle()
    assert cluster.sites["cam"].homes["q1"].plan == plan
    finish(cluster, 30)
    check_whole(cluster)


# -- it does not ------------------------------------------------------------------------------


@pytest.mark.parametrize("dead", ["ash", "bow", "cam"])
@EVERY
def test_a_site_that_dies_amid_it_loses_no_row_and_brings_none_twice(after: Algorithm, dead: str) -> None:
    """It dies after each of the first messages in turn."""
    before = Algorithm.SP_D if after is Algorithm.SP_S else Algorithm.SP_S
    states = set()
    for steps in itertools.count(0, 2):
        cluster = running(before)
        feed(cluster, 0)
        cluster.settle()
        cluster.replan("cam", after)
        happening = one_by_one(cluster)
        happened = sum(1 for _ in itertools.islice(happening, steps))
        cluster.restart(dead)
        cluster.settle()
        feed(cluster, 30)
        cluster.settle()
        finish(cluster, 60)
        states.add(cluster.switches[-1][0] if cluster.switches else None)
        check_whole(cluster)
        if happened < steps:
            break
    assert SwitchState.SWITCHED in states


@pytest.mark.parametrize("pair", [("ash", "bow"), ("ash", "cam"), ("bow", "cam")], ids="-".join)
def test_a_session_that_is_lost_amid_it_loses_no_row_and_brings_none_twice(pair: tuple[str, str]) -> None:
    for steps in itertools.count():
        cluster = running(Algorithm.SP_S)
        feed(cluster, 0)
        cluster.settle()
        cluster.replan("cam", Algorithm.SM_S2)
        happened = sum(1 for _ in itertools.islice(one_by_one(cluster), steps))
        cluster.lose_session(*pair)
        cluster.settle()
        feed(cluster, 30)
        cluster.settle()
        finish(cluster, 60)
        check_whole(cluster)
        if happened < steps:
            return


@pytest.mark.parametrize("site", ["ash", "bow", "cam"])
@pytest.mark.parametrize("which", [0, -1], ids=["the plan before", "the new plan"])
def test_a_site_that_voids_a_run_amid_it_loses_no_row_and_brings_none_twice(site: str, which: int) -> None:
    """As it does when a query lags, after each of the first messages in turn."""
    for steps in itertools.count(0, 3):
        cluster = running(Algorithm.SM_S1)
        feed(cluster, 0)
        cluster.settle()
        cluster.replan("cam", Algorithm.SP_S)
        happened = sum(1 for _ in itertools.islice(one_by_one(cluster), steps))
        cluster.sites[site]._participant.ends.lose([*cluster.sites[site].runs][which], "lags")
        cluster.give(site, ClockAdvanced())
        feed(cluster, 30)
        cluster.settle()
        finish(cluster, 60)
        check_whole(cluster)
        check_switch_is_over(cluster)
        if happened < steps:
            return


def test_a_loss_amid_it_is_told_with_what_becomes_of_the_switch() -> None:
    """Before heads go over the plan stays, afterwards it is the new one; both times it is said what came in between."""
    told = {}
    for steps in itertools.count():
        cluster = running(Algorithm.SP_D)
        feed(cluster, 0)
        cluster.settle()
        cluster.replan("cam", Algorithm.SP_S)
        happened = sum(1 for _ in itertools.islice(one_by_one(cluster), steps))
        before = cluster.switches[-1][0]
        cluster.restart("ash")
        cluster.settle()
        if before is not SwitchState.SWITCHED:
            told[before] = cluster.switches[-1]
        if happened < steps:
            break
    assert told == {
        SwitchState.PREPARING: (SwitchState.GIVEN_UP, f"site ash: {RESTARTED}"),
        SwitchState.SWITCHING: (SwitchState.SWITCHED, f"site ash: {RESTARTED}"),
    }


def test_a_site_that_is_not_ready_in_time_leaves_the_plan_as_it_was() -> None:
    cluster = running(Algorithm.SP_S)
    plan = cluster.sites["cam"].homes["q1"].plan
    cluster.replan("cam", Algorithm.SP_D)
    for _ in one_by_one(cluster):
        if any(isinstance(message, Prepare) for message in cluster.mail["cam", "bow"]):
            break
    kept = list(cluster.mail["cam", "bow"])
    cluster.mail["cam", "bow"].clear()
    cluster.settle()
    cluster.now_us += cluster.limits.prepare_us
    cluster.give("cam", ClockAdvanced())
    assert cluster.switches[-1][0] is SwitchState.GIVEN_UP
    assert "got no word of bow" in cluster.switches[-1][1]
    assert cluster.sites["cam"].homes["q1"].plan == plan
    cluster.mail["cam", "bow"].extendleft(reversed(kept))
    cluster.settle()
    finish(cluster, 0)
    check_whole(cluster)


@pytest.mark.parametrize("says", [Refused, Failed])
@pytest.mark.parametrize("site", ["ash", "bow"])
def test_a_site_that_cannot_go_over_leaves_the_plan_as_it_was(site: str, says: type[Refused | Failed]) -> None:
    """It refuses to prepare, or its engine fails while what the new plan looks at is filled."""
    cluster = running(Algorithm.SP_S)
    plan = cluster.sites["cam"].homes["q1"].plan
    feed(cluster, 0)
    cluster.settle()
    cluster.replan("cam", Algorithm.SP_D)
    cluster.settle_but((site, "cam"))
    switch = cluster.sites["cam"].homes["q1"].switch
    assert switch is not None
    cluster.say(site, "cam", says(switch.run_id, "a test wants it"))
    cluster.settle()
    reason = f"site {site} refused: a test wants it" if says is Refused else "a test wants it"
    assert cluster.switches == [(SwitchState.PREPARING, ""), (SwitchState.GIVEN_UP, reason)]
    assert cluster.sites["cam"].homes["q1"].plan == plan
    assert QueryState.RECOVERING not in {state for _, state, _ in cluster.states}
    assert [[*each.runs] for each in cluster.sites.values()] == [["q1"]] * 3
    finish(cluster, 30)
    check_whole(cluster)


def without_a_query(cluster: Cluster) -> None:
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()


def twice(cluster: Cluster) -> None:
    cluster.replan("cam", Algorithm.SM_S1)


def amid_a_recovery(cluster: Cluster) -> None:
    cluster.restart("ash")


@pytest.mark.parametrize(
    ("prepare", "algorithm", "says"),
    [
        (without_a_query, Algorithm.SP_D, "that it runs; got one that is dropped"),
        (twice, Algorithm.SP_D, "that it is not going over to one; got one that is"),
        (amid_a_recovery, Algorithm.SP_D, "that it runs; got one that is recovering"),
        (lambda _: None, Algorithm.SP_S, "another one; got that by which it runs"),
    ],
)
def test_what_cannot_go_over_says_why(prepare: Callable[[Cluster], None], algorithm: Algorithm, says: str) -> None:
    cluster = running(Algorithm.SP_S)
    prepare(cluster)
    cluster.replan("cam", algorithm)
    assert cluster.switches[-1][0] is SwitchState.GIVEN_UP
    assert says in cluster.switches[-1][1]


def test_a_query_that_is_not_known_does_not_go_over() -> None:
    cluster = Cluster()
    cluster.replan("cam", Algorithm.SP_D)
    assert cluster.switches[0][0] is SwitchState.GIVEN_UP
    assert "got none of that name" in cluster.switches[0][1]


def test_policy_delta_does_not_go_over() -> None:
    cluster = Cluster(policy=Policy(PolicyName.DELTA, 1_000))
    cluster.issue("cam", Algorithm.SP_S)
    cluster.settle()
    cluster.replan("cam", Algorithm.SP_D)
    assert "policy frontier" in cluster.switches[-1][1]


def test_a_query_that_is_dropped_amid_it_leaves_nothing() -> None:
    for steps in itertools.count():
        cluster = running(Algorithm.SP_S)
        feed(cluster, 0)
        cluster.settle()
        cluster.replan("cam", Algorithm.SM_D2)
        happened = sum(1 for _ in itertools.islice(one_by_one(cluster), steps))
        cluster.give("cam", DropRequested("q1"))
        cluster.settle()
        assert cluster.state is QueryState.DROPPED
        assert cluster.leftovers() == []
        check_switch_is_over(cluster)
        if happened < steps:
            return


def test_what_was_said_of_plans_that_were_given_up_is_forgotten() -> None:
    """A fence of one may come after it was dropped, and belongs to nothing."""
    cluster = running(Algorithm.SP_S)
    for number in range(3):
        cluster.replan("cam", Algorithm.SP_D)
        cluster.settle_but(("ash", "bow"))
        cluster.now_us += cluster.limits.fill_us
        cluster.give("cam", ClockAdvanced())
        assert cluster.switches[-1][0] is SwitchState.GIVEN_UP
        cluster.settle_but(("ash", "bow"))
        cluster.settle()
        fences = cluster.sites["bow"]._participant.fences.places
        assert len([place for place in fences if is_successor(place[1])]) == 1, f"after {number} more"
    finish(cluster, 0)
    check_whole(cluster)
    assert [*cluster.sites["bow"]._participant.fences.places] == []


# -- what is said -----------------------------------------------------------------------------


def test_every_site_cuts_at_its_own_frontier_and_the_plan_before_ends_when_it_is_done() -> None:
    cluster = running(Algorithm.SP_S)
    feed(cluster, 0)
    cluster.settle()
    cluster.replan("cam", Algorithm.SP_D)
    cluster.settle()
    cuts = {(cut.head, cut.tick) for cut in cluster.sent(Cut) if isinstance(cut, Cut)}
    fed = {("a", cluster.sites["ash"].streams["l"].fed), ("b", cluster.sites["bow"].streams["r"].fed)}
    assert cuts == fed
    assert len(cluster.sent(Floor)) == 3 - 1, "home tells itself without a message"
    for site in cluster.sites.values():
        assert [is_successor(run) for run in site.runs] == [True]
    assert cluster.sent(Drop) == []
    assert all(tick < TICK_END for _, tick in fed)


# -- at once ----------------------------------------------------------------------------------

CUT = (("ash", "bow"), ("bow", "ash"))


def cut(cluster: Cluster) -> None:
    """The two sites with streams do not reach each other any more; both know."""
    for site, peer in CUT:
        cluster.sites[site]._outbox.is_up = partial(operator.ne, peer)


@pytest.mark.parametrize("before", [each for each in Algorithm if each is not Algorithm.SP_S])
def test_over_a_link_that_is_cut_it_goes_on_at_once_by_a_plan_that_does_without(before: Algorithm) -> None:
    cluster = running(before)
    cut(cluster)
    feed(cluster, 0)
    cluster.settle_but(*CUT)
    held_up = cluster.results()
    query = cluster.sites["cam"].homes["q1"].plan.query
    plan = ship_all_plan(query, "cam")
    cluster.give("cam", ReplanRequested("q1", plan, "a link is cut", at_once=True))
    cluster.settle_but(*CUT)
    assert [state for state, _ in cluster.switches] == [SwitchState.PREPARING, SwitchState.SWITCHED]
    home = cluster.sites["cam"].homes["q1"]
    assert (home.plan, home.switch, home.state) == (plan, None, QueryState.RUNNING)
    cluster.arrive("l", 30, ended=True)
    cluster.arrive("r", 31, ended=True)
    cluster.settle_but(*CUT)
    assert (cluster.state, cluster.results()) == (QueryState.COMPLETED, cluster.oracle())
    assert held_up != cluster.oracle()
    # What waits for the link does no harm when it comes.
    cluster.settle()
    check_whole(cluster)


@EVERY
def test_at_once_no_row_is_lost_and_none_comes_twice(after: Algorithm) -> None:
    before = Algorithm.SM_D1 if after is Algorithm.SM_S1 else Algorithm.SM_S1
    cluster = running(before)
    feed(cluster, 0)
    for _ in zip(range(6), one_by_one(cluster), strict=False):
        pass
    plan = cluster.plan("cam", after)
    cluster.give("cam", ReplanRequested("q1", plan, "a test wants it", at_once=True))
    cluster.settle()
    assert cluster.sites["cam"].homes["q1"].plan == plan
    finish(cluster, 60)
    check_whole(cluster)
    check_switch_is_over(cluster)
