"""What a peer must not send ends a query, or is set aside: never the daemon, and nobody else is blamed for it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pyarrow as pa
import pytest

from node.core.effects import IgnoreReason, OpenLog, QueryState, ReportDropped, SwitchState
from node.core.encoding.rows import encode_rows
from node.core.engine import TS
from node.core.errors import PeerProtocolError
from node.core.events import DropRequested, PeerGreeted, QueryIssued
from node.core.limits import Limits
from node.core.links.messages import (
    FIRST_GENERATION,
    AskProfile,
    Carry,
    CloseCopy,
    Cut,
    Drop,
    Failed,
    Fence,
    Floor,
    LeaseCopy,
    Level,
    Lost,
    Prepare,
    Prepared,
    Ready,
    Refused,
    Resumption,
    Rows,
    Start,
    Switch,
)
from node.core.queries import run as run_module
from node.core.queries.query_id import successor_of
from node.core.streams.ticks import TICK_MIN, Span
from planner.model.kept import inner_query, outer_query
from planner.model.plans import forced_plan
from planner.model.query import Algorithm, KeptJoin, Sequence, Step
from planner.sql.parser import parse_query
from tests.unit.sites import QUERY, Cluster, info

THREE = (
    "SELECT a.n AS an, b.n AS bn, c.n AS cn FROM l [RANGE 30 MS] AS a JOIN r [RANGE 30 MS] AS b ON a.key = b.key "
    "JOIN l [RANGE 30 MS] AS c ON b.key = c.key"
)


def running(algorithm: Algorithm = Algorithm.SP_D, sink: str = "cam") -> Cluster:
    cluster = Cluster()
    cluster.issue(sink, algorithm)
    cluster.settle()
    return cluster


def carry_of(span: Span, *ts: int) -> Carry:
    """A walk of head a, with key 1, for its first step."""
    columns = {TS: list(ts), "a.key": [1] * len(ts), "a.n": list(range(len(ts)))}
    schema = pa.schema([(name, pa.int64()) for name in columns])
    return Carry("q1", "a", span, 0, 0, encode_rows(pa.RecordBatch.from_pydict(columns, schema=schema)))


# -- spans ------------------------------------------------------------------------------------

OVERLAPS = pytest.mark.parametrize("again", [Span(TICK_MIN, 3), Span(2, 4)], ids=["again", "overlapping"])


@OVERLAPS
@pytest.mark.parametrize("algorithm", [Algorithm.SP_D, Algorithm.SM_D1])
def test_a_walk_that_comes_twice_ends_its_query_where_it_would_end(algorithm: Algorithm, again: Span) -> None:
    """Both would be joined, and the second could not be stored when the engine answers."""
    cluster = running(algorithm, sink="bow")
    cluster.arrive("r", 5, 50)
    cluster.say("ash", "bow", carry_of(Span(TICK_MIN, 3), 6))
    cluster.say("ash", "bow", carry_of(again, 25))
    assert [peer for peer, _ in cluster.blamed] == ["ash"]
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    required = "query q1, head 'a', step 0 requires walks of ticks from start on, each once"
    assert cluster.reason == f"site ash broke the protocol: {required}; got {again}"
    assert cluster.holds_nothing()


@OVERLAPS
@pytest.mark.parametrize("next_step", [Algorithm.SM_S1, Algorithm.SM_S2, Algorithm.SM_D1, Algorithm.SM_D2])
def test_a_walk_that_comes_twice_blames_nobody_who_does_its_next_step(next_step: Algorithm, again: Span) -> None:
    """With what it knows of the first one overwritten, the answers of the next stream's site would look wrong."""
    cluster = Cluster()
    query = parse_query(THREE, cluster.sites["cam"].catalogue)
    plan = forced_plan(query, "cam", Algorithm.SP_D)
    steps = Sequence("a", (Step("b", Algorithm.SP_D), Step("c", next_step)))
    plan = replace(plan, sequences=tuple(steps if one.head == "a" else one for one in plan.sequences))
    cluster.give("cam", QueryIssued("q1", plan))
    cluster.settle()
    cluster.arrive("r", 5, 50, ended=True)
    cluster.settle()
    cluster.say("ash", "bow", carry_of(Span(TICK_MIN, 3), 6))
    cluster.say("ash", "bow", carry_of(again, 25))
    cluster.arrive("l", 7, 60, ended=True)
    cluster.settle()
    assert [peer for peer, _ in cluster.blamed] == ["ash"]
    assert cluster.state is QueryState.FAILED
    assert cluster.reason.startswith("site ash broke the protocol: query q1, head 'a', step 0 requires walks")


def streaming() -> Cluster:
    """Query q1 is done with everything before tick 3."""
    cluster = running()
    for ts in (5, 15, 25, 35):
        cluster.arrive("l", ts)
        cluster.arrive("r", ts)
        cluster.settle()
    home = cluster.sites["cam"].homes["q1"]
    assert home.sink is not None
    assert dict(home.sink.frontiers)["a"] == 3
    return cluster


def test_a_walk_that_is_done_is_refused() -> None:
    cluster = streaming()
    cluster.say("ash", "bow", carry_of(Span(2, 3), 25))
    cluster.settle()
    required = "query q1, head 'a', step 0 requires walks of ticks from 3 on, each once"
    assert cluster.reason == f"site ash broke the protocol: {required}; got [2, 3)"


def test_a_walk_from_before_the_start_is_refused() -> None:
    cluster = streaming()
    cluster.issue("cam", query_id="q2")
    for site in ("ash", "bow"):
        cluster.deliver("cam", site)
        cluster.deliver(site, "cam")
    start = cluster.deliver("cam", "bow")
    assert isinstance(start, Start)
    assert start.tick == 3
    cluster.say("ash", "bow", replace(carry_of(Span(2, 3), 25), query_id="q2"))
    cluster.settle()
    assert "query q2, head 'a', step 0 requires walks of ticks from 3 on, each once; got [2, 3)" in cluster.reason


@pytest.mark.parametrize("span", [Span(TICK_MIN, 2), Span(1, 4)], ids=str)
def test_rows_of_a_walk_that_is_under_way_at_home_end_the_query_and_not_the_daemon(span: Span) -> None:
    """Home stores what came first; which site was wrong is not known when its own walk ends."""
    cluster = running(Algorithm.SP_S, sink="ash")
    cluster.arrive("l", 1, 30)
    cluster.say("bow", "ash", Rows("q1", "a", span, 0, b""))
    cluster.arrive("r", 2, 30)
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert cluster.reason.startswith("at ash: head a requires walks ")
    assert cluster.blamed == []
    assert cluster.holds_nothing()


# -- who may send rows ------------------------------------------------------------------------


def result(*pairs: tuple[int, int]) -> bytes:
    schema = pa.schema([("an", pa.int64()), ("bn", pa.int64())])
    return encode_rows(pa.RecordBatch.from_pylist([{"an": an, "bn": bn} for an, bn in pairs], schema=schema))


@pytest.mark.parametrize(
    ("algorithm", "head", "ends", "other"),
    [
        (Algorithm.SP_D, "a", "bow", "ash"),
        (Algorithm.SP_D, "b", "ash", "bow"),
        (Algorithm.SP_S, "a", "ash", "bow"),
        (Algorithm.SP_S, "b", "bow", "ash"),
    ],
)
def test_rows_come_from_the_site_where_the_last_step_of_their_head_ends(
    algorithm: Algorithm, head: str, ends: str, other: str
) -> None:
    rows = Rows("q1", head, Span(TICK_MIN, 3), 0, result((7, 8)))
    cluster = running(algorithm)
    cluster.say(ends, "cam", rows)
    assert cluster.blamed == []
    assert cluster.results() == [(7, 8)]
    cluster = running(algorithm)
    cluster.say(other, "cam", rows)
    required = f"query q1 requires rows of {head!r} from {ends}; got some from {other}"
    assert cluster.blamed == [(other, required)]
    assert cluster.results() == []
    cluster.settle()
    assert cluster.reason == f"site {other} broke the protocol: {required}"


@pytest.mark.parametrize("site", ["ash", "bow"])
def test_a_walk_without_rows_may_end_anywhere_on_its_way(site: str) -> None:
    cluster = running()
    cluster.say(site, "cam", Rows("q1", "a", Span(TICK_MIN, 3), 0, b""))
    assert cluster.blamed == []


@pytest.mark.parametrize(("head", "text"), [("x", "requires rows of its heads; got 'x' from ash"), ("a", "ends of")])
def test_nobody_else_says_that_a_walk_ended(head: str, text: str) -> None:
    cluster = running()
    sender = "ash" if head == "x" else "dew"
    cluster.say(sender, "cam", Rows("q1", head, Span(TICK_MIN, 3), 0, b""))
    ((peer, reason),) = cluster.blamed
    assert peer == sender
    assert text in reason


# -- before the start -------------------------------------------------------------------------


def prepared(limits: Limits | None = None) -> Cluster:
    """Query q1 is prepared at bow, and the start has not come."""
    cluster = Cluster(limits)
    cluster.issue("cam")
    cluster.deliver("cam", "bow")
    return cluster


def test_what_comes_before_the_start_is_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_EARLY_MESSAGE_BYTES", 1 << 19)
    cluster = prepared(Limits(news_us=0, shipment_bytes_max=0, message_bytes_max=1 << 20))
    cluster.say("ash", "bow", replace(carry_of(Span(0, 1), 6), rows=b""))
    cluster.say("ash", "bow", replace(carry_of(Span(1, 2), 16), rows=b""))
    assert "q1" in cluster.sites["bow"].runs
    cluster.say("ash", "bow", replace(carry_of(Span(2, 3), 26), rows=b""))
    assert "q1" not in cluster.sites["bow"].runs
    cluster.settle()
    assert cluster.reason == (
        "at bow: query q1 requires its start before 1048576 bytes of walks; got more, the last from ash"
    )
    assert cluster.blamed == []


def test_a_site_that_takes_no_part_cannot_fill_what_is_kept_before_the_start() -> None:
    cluster = prepared()
    cluster.say("dew", "bow", carry_of(Span(0, 1), 6))
    ((peer, reason),) = cluster.blamed
    assert (peer, reason) == ("dew", "query q1 requires walks of its own sites; got one from dew")
    cluster.settle()
    assert cluster.state is QueryState.RUNNING


# -- who may prepare what ---------------------------------------------------------------------


def prepare(cluster: Cluster, home: str, query_id: str) -> Prepare:
    return Prepare(query_id, QUERY, home, cluster.plan(home).sequences, tuple(cluster.infos.values()))


def test_an_id_that_another_site_uses_is_refused_and_disturbs_nobody() -> None:
    cluster = running()
    cluster.say("ash", "bow", prepare(cluster, "ash", "q1"))
    assert list(cluster.mail["bow", "ash"]) == [
        Refused("q1", "site bow requires new query ids; got q1, which is a query of cam")
    ]
    assert cluster.blamed == []
    assert cluster.sites["bow"].runs["q1"].plan.sink == "cam"
    cluster.say("ash", "cam", prepare(cluster, "ash", "q1"))
    assert cluster.mail["cam", "ash"].pop() == Refused(
        "q1", "site cam requires new query ids; got q1, which is a query of cam"
    )


@pytest.mark.parametrize(
    ("query_id", "taken"),
    [
        ("q1", True),
        ("ash-12-3", True),
        ("bow-1-1", False),
        ("ash-west-1-1", False),
        ("cam-2-1", False),
        ("as-1-1", False),
    ],
)
def test_an_id_names_its_home(query_id: str, taken: bool) -> None:
    cluster = Cluster()
    cluster.say("ash", "bow", prepare(cluster, "ash", query_id))
    assert (query_id in cluster.sites["bow"].runs) is taken
    answer = cluster.mail["bow", "ash"].pop()
    if not taken:
        required = "site bow requires ids of queries of ash to name it"
        assert answer == Refused(query_id, f"{required}; got {query_id}")


def test_an_id_of_an_own_query_that_has_ended_is_refused_too() -> None:
    cluster = running()
    for stream in ("l", "r"):
        cluster.arrive(stream, 1, ended=True)
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    cluster.say("ash", "cam", prepare(cluster, "ash", "q1"))
    assert [type(message) for message in cluster.mail["cam", "ash"]] == [Refused]


def test_a_query_with_a_site_to_which_there_is_no_link_is_refused() -> None:
    """It was added to the file, and this site was not restarted since."""
    cluster = Cluster()
    cluster.sites["ash"].watch_links(("cam",), lambda _: 0)
    cluster.issue("cam")
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert cluster.reason == ("site ash refused: site ash requires links with all sites of a query; got none with bow")
    assert cluster.holds_nothing()


def test_a_query_of_linked_sites_runs_once_all_of_them_have_met() -> None:
    """What is said to a site that was never met could be heard by a daemon that knows nothing of the query."""
    cluster = Cluster()
    for site in cluster.sites:
        cluster.sites[site].watch_links([peer for peer in cluster.sites if peer != site], lambda _: 0)
    cluster.issue("cam")
    pairs = list(itertools.permutations(cluster.sites, 2))
    for site, peer in pairs:
        cluster.settle()
        assert cluster.states == []
        cluster.give(site, PeerGreeted(peer, ()))
    cluster.settle()
    assert cluster.state is QueryState.RUNNING


# -- greetings --------------------------------------------------------------------------------


def test_a_peer_names_no_streams_of_others() -> None:
    cluster = Cluster()
    theirs = (cluster.infos["l"], info("x", "cam"), info("r", "cam"), info("y", "bow"))
    cluster.give("cam", PeerGreeted("bow", theirs))
    assert dict(cluster.sites["cam"].catalogue) == {"l": cluster.infos["l"], "y": info("y", "bow")}
    assert cluster.blamed == [("bow", "a greeting requires streams of its own site; got l, x, r of others")]


@pytest.mark.parametrize("first", ["ash", "bow"])
def test_a_name_that_two_sites_claim_is_shown_and_belongs_to_the_same_one_in_any_order(first: str) -> None:
    cluster = Cluster()
    second = "bow" if first == "ash" else "ash"
    for site in (first, second):
        cluster.give("cam", PeerGreeted(site, ()))
    for site in (first, second):
        cluster.give("cam", PeerGreeted(site, (info("x", site),)))
    assert cluster.sites["cam"].catalogue["x"].site == "ash"
    assert cluster.blamed == [(second, f"a stream requires a name of its own; got x of {first} and {second}")]
    cluster.give("cam", PeerGreeted("ash", ()))  # it has moved
    assert cluster.sites["cam"].catalogue["x"].site == "bow"
    assert len(cluster.blamed) == 1


def test_an_own_stream_is_nobody_elses() -> None:
    cluster = Cluster()
    cluster.give("ash", PeerGreeted("bow", (info("l", "bow"),)))
    assert cluster.sites["ash"].catalogue["l"] == cluster.infos["l"]
    assert cluster.blamed == [("bow", "a stream requires a name of its own; got l of ash and bow")]


# -- figures of copies ------------------------------------------------------------------------


def test_a_copy_that_is_closed_while_its_query_runs_leaves_its_figures_to_that_query() -> None:
    cluster = Cluster(Limits(news_us=0, ended_queries_max=1))
    for query_id, algorithm in (("q0", Algorithm.SP_D), ("q1", Algorithm.SM_S2)):
        cluster.issue("cam", algorithm, query_id)
        cluster.settle()
    cluster.give("cam", DropRequested("q0"))
    cluster.settle()
    ash = cluster.sites["ash"]
    (copy,) = ash.arrangements.owned.all
    half, views = copy.status(), ash.view_counts()
    assert [view.query_id for view in views] == ["q0", "q1"]
    cluster.say("bow", "ash", CloseCopy(copy.number))
    assert half in ash.copy_statuses()
    assert ash.view_counts() == views, "one that has ended is not forgotten for one that runs"
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    assert ash.copy_statuses().count(half) == 1


# -- what a query goes on with ------------------------------------------------------------------


def going_on(*cut: tuple[str, str]) -> Cluster:
    """ash died; all that follows has happened but what goes these ways."""
    cluster = streaming()
    cluster.restart("ash")
    cluster.settle_but(*cut)
    return cluster


def test_a_query_that_goes_on_without_what_is_done_is_refused() -> None:
    cluster = streaming()
    (first,) = {message for message in cluster.sent(Prepare) if isinstance(message, Prepare)}
    wrong = replace(first, generation=9, resumed=Resumption(0, (("a", 3),), 3))
    cluster.say("cam", "bow", wrong)
    refused = next(message for message in cluster.mail["bow", "cam"] if isinstance(message, Refused))
    assert refused.reason == "query q1 requires what is done of a, b; got none of b"
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert cluster.holds_nothing()


@pytest.mark.parametrize("part", ["frontiers", "begins"])
def test_a_site_that_is_ready_to_go_on_says_where_its_streams_are(part: str) -> None:
    cluster = going_on(("bow", "cam"))
    (said,) = [message for message in cluster.mail["bow", "cam"] if isinstance(message, Prepared)]
    cluster.mail["bow", "cam"].clear()
    cluster.say("bow", "cam", replace(said, **{part: (("a", 3),)}))  # type: ignore[arg-type]
    cluster.settle()
    assert [peer for peer, _ in cluster.blamed] == ["bow"]
    assert cluster.state is QueryState.FAILED
    assert cluster.reason.endswith(f"a site that is ready for query q1 requires {part} of b; got none of b")
    assert cluster.holds_nothing()


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"done": (("a", 3),)}, "requires what is done of a, b; got none of b"),
        ({"begins": ()}, "requires begins of a, b; got none of a, b"),
        ({"islands": (("z", Span(5, 6)),)}, "requires islands of a, b; got z"),
        (None, "requires what is done, as it was prepared; got nothing"),
    ],
)
def test_the_start_of_a_query_that_goes_on_says_where_it_begins(change: dict[str, object] | None, got: str) -> None:
    cluster = going_on(("cam", "bow"))
    while not any(isinstance(message, Start) for message in cluster.mail["cam", "bow"]):
        cluster.deliver("cam", "bow")
        cluster.settle_but(("cam", "bow"))
    (said,) = [message for message in cluster.mail["cam", "bow"] if isinstance(message, Start)]
    assert said.resumed is not None
    wrong = None if change is None else replace(said.resumed, **change)  # type: ignore[arg-type]
    cluster.mail["cam", "bow"].clear()
    cluster.say("cam", "bow", replace(said, resumed=wrong))
    cluster.settle()
    assert [peer for peer, _ in cluster.blamed] == ["cam"]
    assert cluster.reason.endswith(got)
    assert cluster.holds_nothing()


def test_a_query_of_another_home_keeps_its_pin_whoever_asks_with_its_id() -> None:
    """It lags, and has nothing here but that."""
    cluster = streaming()
    (first,) = {message for message in cluster.sent(Prepare) if isinstance(message, Prepare)}
    cluster.sites["bow"]._participant.ends.lose("q1", "lags")
    cluster.say("ash", "bow", replace(first, sink="ash", generation=9))
    assert cluster.sites["bow"].pins == ("q1",)
    (refused,) = [message for message in cluster.mail["bow", "ash"] if isinstance(message, Refused)]
    assert refused.reason == "site bow requires new query ids; got q1, which is a query of cam"


@pytest.mark.parametrize("algorithm", [Algorithm.SP_S, Algorithm.SM_D1, Algorithm.SM_S1, Algorithm.SM_S2])
def test_a_query_that_is_to_open_a_copy_of_its_own_cannot_use_one_that_is_there(algorithm: Algorithm) -> None:
    """Nothing of that is kept for it: its owner took part in a generation that may wait for long."""
    cluster = Cluster()
    for query_id in ("q1", "q2"):
        cluster.issue("bow", algorithm, query_id)
        cluster.settle()
    prepare = cluster.sites["bow"].homes["q2"].prepare()
    assert prepare.resumed is not None
    cluster.say("bow", "ash", Fence("q2", 9))
    cluster.say("bow", "ash", replace(prepare, generation=9, resumed=replace(prepare.resumed, is_alone=True)))
    ash = cluster.sites["ash"]
    (copy,), (claim,) = ash.arrangements.owned.all, ash.arrangements.owned.claims
    assert claim.is_own
    cluster.say("bow", "ash", LeaseCopy("q2", copy.number, claim.need.number))
    required = f"query q2 requires for its need {claim.need.number} a copy of its own"
    assert cluster.blamed == [("bow", f"{required}; got {copy.spec.kind} copy {copy.number} of l")]
    cluster.settle()
    assert cluster.states[-1][:2] == ("q2", QueryState.FAILED)
    assert list(ash.runs) == ["q1"]


# -- going over to another plan -----------------------------------------------------------------


def going_over(sink: str, *cut: tuple[str, str]) -> tuple[Cluster, int]:
    """A query that was asked to go over to another plan, and the number of that; all has happened but what goes these
    ways.
    """
    cluster = running(Algorithm.SP_S, sink)
    cluster.arrive("l", 5, 25)
    cluster.arrive("r", 6, 26)
    cluster.settle()
    cluster.replan(sink, Algorithm.SP_D)
    cluster.settle_but(*cut)
    switch = cluster.sites[sink].homes["q1"].switch
    assert switch is not None
    return cluster, switch.generation


def is_blamed(cluster: Cluster, peer: str, reason: str) -> bool:
    """Whether one site is, and its query ended for that."""
    cluster.settle()
    told = {(who, what) for who, what in cluster.blamed}
    assert cluster.leftovers() == []
    return told == {(peer, reason)} and cluster.reason == f"site {peer} broke the protocol: {reason}"


def test_a_site_that_takes_no_part_is_not_ready_and_gives_nothing_up() -> None:
    cluster, number = going_over("ash", ("bow", "ash"))
    home = cluster.sites["ash"].homes["q1"]
    run = successor_of("q1", number)
    for said in (Ready("q1", number), Refused(run, "no"), Failed(run, "no"), Lost(run, number, "no")):
        cluster.say("cam", "ash", said)
        cluster.settle_but(("bow", "ash"))
        assert home.switch is not None
        assert cluster.switches == [(SwitchState.PREPARING, "")]
    cluster.settle()
    assert cluster.switches[-1][0] is SwitchState.SWITCHED
    assert cluster.blamed == []


def test_what_is_lost_of_an_old_generation_changes_nothing_amid_it() -> None:
    cluster, number = going_over("cam", ("bow", "cam"))
    cluster.say("ash", "cam", Lost("q1", number - 7, "lags"))
    assert cluster.ignored == [IgnoreReason.OTHER_GENERATION]
    cluster.settle()
    assert cluster.switches[-1][0] is SwitchState.SWITCHED
    assert QueryState.RECOVERING not in {state for _, state, _ in cluster.states}


def test_nobody_is_ready_for_another_plan_or_before_it_is_started() -> None:
    cluster, number = going_over("cam", ("bow", "cam"))
    cluster.say("bow", "cam", Ready("q1", number))
    cluster.say("bow", "cam", Ready("q1", number - 1))
    assert cluster.switches == [(SwitchState.PREPARING, "")]
    cluster.settle()
    assert cluster.switches[-1][0] is SwitchState.SWITCHED


@pytest.mark.parametrize("kind", [Switch, Floor])
def test_only_home_has_a_site_go_over(kind: type[Switch | Floor]) -> None:
    cluster, number = going_over("cam", ("bow", "cam"))
    cluster.say("bow", "ash", kind("q1", number))
    what = "its switch" if kind is Switch else "its floor"
    name = successor_of("q1", number) if kind is Switch else "q1"
    assert is_blamed(cluster, "bow", f"query {name} requires {what} from its home, cam; got bow")


def test_only_home_drops_a_plan_that_a_query_was_to_go_over_to() -> None:
    cluster, number = going_over("cam", ("bow", "cam"))
    run = successor_of("q1", number)
    cluster.say("bow", "ash", Drop(run))
    cluster.settle()
    assert [peer for peer, _ in cluster.blamed] == ["bow"]
    assert cluster.switches[-1][0] is SwitchState.GIVEN_UP
    assert cluster.state is QueryState.RUNNING, "by the plan that it has"


def test_a_site_goes_over_once() -> None:
    cluster, number = going_over("cam", ("ash", "cam"), ("ash", "bow"))
    while not any(isinstance(message, Ready) for message in cluster.mail["ash", "cam"]):
        cluster.deliver("ash", "bow" if cluster.mail["ash", "bow"] else "cam")
        cluster.settle_but(("ash", "cam"), ("ash", "bow"))
    run = successor_of("q1", number)
    required = f"query {run} requires its switch once, when all are ready"
    while not cluster.sent(Switch):
        cluster.deliver("ash", "cam")
        cluster.settle_but(("ash", "cam"), ("ash", "bow"))
    cluster.say("cam", "ash", Switch("q1", number))
    assert is_blamed(cluster, "cam", f"{required}; got one, and has gone over")


def test_a_site_does_not_go_over_before_the_start() -> None:
    cluster, number = going_over("cam", ("bow", "cam"))
    cluster.say("cam", "ash", Switch("q1", number))
    required = f"query {successor_of('q1', number)} requires its switch once, when all are ready"
    assert is_blamed(cluster, "cam", f"{required}; got one, and is not started")


@pytest.mark.parametrize(("head", "sender"), [("b", "ash"), ("a", "cam"), ("zz", "ash")])
@pytest.mark.parametrize("receiver", ["bow", "cam"])
def test_only_the_site_of_a_head_cuts_it(head: str, sender: str, receiver: str) -> None:
    if sender == receiver:
        return
    cluster, number = going_over("cam", ("bow", "cam"))
    cluster.say(sender, receiver, Cut("q1", number, head, 9))
    required = "query q1 requires cuts of its heads from their sites"
    assert is_blamed(cluster, sender, f"{required}; got one of {head!r} from {sender}")


def test_no_head_is_cut_before_all_sites_are_ready() -> None:
    cluster, number = going_over("cam", ("bow", "ash"))
    cluster.say("ash", "cam", Cut("q1", number, "a", 9))
    required = f"{successor_of('q1', number)} requires one cut of each head, after all sites were ready"
    assert is_blamed(cluster, "ash", f"{required}; got a=9")


def test_a_head_is_cut_once_for_the_plan_before() -> None:
    """Where it would be cut later, both would walk what is between."""
    cluster, number = going_over("cam", ("bow", "cam"))
    run = cluster.sites["bow"].runs["q1"]
    run.end_head("a", number, 3)
    run.end_head("a", number + 1, 7)
    assert run._heads["a"].end == 3, "the next plan takes it over from that one"
    with pytest.raises(PeerProtocolError, match="query q1 requires one end of each head; got a=5 again"):
        run.end_head("a", number, 5)


def test_only_its_owner_says_that_a_copy_is_level() -> None:
    cluster = running(Algorithm.SP_S)
    (copy,) = cluster.sites["ash"].arrangements.held.all
    copy.is_level = False
    cluster.say("cam", "ash", Level(copy.number + 7))
    assert cluster.blamed == []
    assert cluster.ignored[-1] is IgnoreReason.UNKNOWN_COPY
    cluster.say("cam", "ash", Level(copy.number))
    assert cluster.blamed == [("cam", f"{copy.progress.name} requires messages of bow; got one of cam")]
    assert not copy.is_level


# -- joins that are kept ------------------------------------------------------------------------


def prepare_kept(query_id: str, text: str = THREE, generation: int = FIRST_GENERATION) -> Prepare:
    """A query of cam that has a join kept at ash."""
    infos = Cluster().infos
    query = parse_query(text, infos)
    join = KeptJoin("pairs", ("a", "c"), "ash", ())
    join = replace(join, sequences=forced_plan(inner_query(query, join), "ash", Algorithm.SP_D).sequences)
    sequences = forced_plan(outer_query(query, (join,)), "cam", Algorithm.SP_D).sequences
    return Prepare(query_id, text, "cam", sequences, tuple(infos.values()), generation=generation, kept=(join,))


def keeping() -> Cluster:
    cluster = Cluster()
    cluster.say("cam", "ash", prepare_kept("cam-1-1"))
    assert [effect.stream for _, effect in cluster.effects if isinstance(effect, OpenLog)] == ["cam-1-1.pairs"]
    return cluster


def refusal(cluster: Cluster, peer: str) -> str:
    """What ash told a peer that wanted something of it."""
    (refused,) = [message for message in cluster.mail["ash", peer] if isinstance(message, Refused)]
    return refused.reason


@pytest.mark.parametrize("query_id", ["/home/", "../../x", "", "a.b", "a\0", "q" * 200, successor_of("cam-1-1", 5)])
def test_a_join_is_kept_in_no_folder_but_one_that_is_named_after_its_query(query_id: str) -> None:
    """Whatever is called so would be removed first. Nor is one kept for a plan that is to take over."""
    cluster = Cluster()
    cluster.say("cam", "ash", prepare_kept(query_id, generation=5))
    assert not [effect for _, effect in cluster.effects if isinstance(effect, OpenLog)]
    assert "site ash requires for kept joins a query's name" in refusal(cluster, "cam")
    assert cluster.leftovers() == []


def test_a_join_is_kept_for_one_query_whatever_another_generation_says() -> None:
    cluster = keeping()
    cluster.say("cam", "ash", prepare_kept("cam-1-1", THREE.replace("a.n AS an", "a.ts AS an"), generation=7))
    assert refusal(cluster, "cam") == "site ash requires for cam-1-1.pairs the query that it is kept for; got another"


def test_nobody_else_reads_a_kept_join_or_asks_what_it_is_like() -> None:
    """It goes with its query: a table of it would be left, and it has no source that could be measured."""
    cluster = keeping()
    derived, own = cluster.sites["ash"].streams["cam-1-1.pairs"].info, cluster.infos["l"]
    text = 'SELECT p."a.n" AS n FROM "cam-1-1.pairs" [RANGE 3 MS] AS p JOIN l [RANGE 3 MS] AS x ON p."a.key" = x.key'
    plan = forced_plan(parse_query(text, {derived.name: derived, "l": own}), "bow", Algorithm.SP_D)
    cluster.say("bow", "ash", Prepare("bow-1-1", text, "bow", plan.sequences, (derived, own)))
    required = "stream cam-1-1.pairs requires the same columns at both sites; got no such stream here"
    assert refusal(cluster, "bow") == required
    cluster.mail["ash", "bow"].clear()
    cluster.say("bow", "ash", AskProfile("bow?1", text, (derived, own)))
    assert refusal(cluster, "bow") == required
    cluster.say("cam", "ash", Drop("cam-1-1"))
    assert not [name for name in cluster.sites["ash"].streams if name != "l"]


def test_who_drops_a_kept_join_by_its_name_is_answered_and_its_query_ends() -> None:
    cluster = keeping()
    cluster.give("ash", DropRequested("cam-1-1.pairs@ash"))
    assert ("ash", ReportDropped("cam-1-1.pairs@ash")) in cluster.effects
    (failed,) = [message for message in cluster.mail["ash", "cam"] if isinstance(message, Failed)]
    assert failed.reason == "at ash: the join kept as cam-1-1.pairs dropped: dropped by a user"
