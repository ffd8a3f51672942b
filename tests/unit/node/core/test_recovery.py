"""Sites die, sessions are lost: queries go on from what is done, and deliver each row once."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from node.core.effects import IgnoreReason, KeepRecord, QueryState, Send, TrimLog
from node.core.events import BatchLogged, ClockAdvanced, DropRequested, SiteStarted
from node.core.limits import Limits
from node.core.links.link_frames import Packed
from node.core.links.messages import (
    FIRST_GENERATION,
    AskMatches,
    Carry,
    Done,
    Drop,
    Fence,
    LeaseCopy,
    Lost,
    Message,
    OpenCopy,
    Prepare,
    Returned,
    Rows,
    Start,
    TupleAnswer,
)
from node.core.query_records import DoneRecord, PinRecord, Record, RecordKind
from node.core.status import HeadProgress
from node.core.streams.ticks import TICK_MIN, Span
from node.rpc import link_pb2, records_pb2
from node.wire.packed import pack, unpack
from node.wire.records import record_out, recovered
from planner.model.query import Algorithm, Policy, PolicyName
from tests.oracle.oracle import Window
from tests.unit.sites import RESTARTED, TAU_MS, Cluster

EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))
WINDOWS = pytest.mark.parametrize("window", [("range", 30_000), ("rows", 2)], ids=["time", "count"])
DEATHS = [("ash",), ("bow",), ("cam",), ("ash", "bow"), ("bow", "cam"), ("ash", "bow", "cam")]


def running(algorithm: Algorithm = Algorithm.SP_D, sink: str = "cam", window: Window | None = None) -> Cluster:
    cluster = Cluster() if window is None else Cluster(window=window)
    cluster.issue(sink, algorithm)
    cluster.settle()
    return cluster


def feed(cluster: Cluster, first: int) -> None:
    """Both streams bring a few rows, and all that follows from them happens."""
    cluster.arrive("l", first, first + 4, first + 11, keys=[1, 2, 1])
    cluster.arrive("r", first + 2, first + 4, first + 13, keys=[1, 2, 2])
    cluster.settle()


def finish(cluster: Cluster, first: int) -> None:
    cluster.arrive("l", first, ended=True)
    cluster.arrive("r", first + 1, ended=True)
    cluster.settle()


def check_whole(cluster: Cluster) -> None:
    assert (cluster.state, cluster.reason) == (QueryState.COMPLETED, "")
    assert cluster.results() == cluster.oracle() != []
    assert cluster.blamed == []
    assert cluster.leftovers() == []
    assert all(RecordKind.PIN not in {kind for kind, _ in records} for records in cluster.records.values())


def generation_of(cluster: Cluster, home: str = "cam") -> int:
    return cluster.sites[home].homes["q1"].generation


# -- who dies, and when -----------------------------------------------------------------------


@EVERY
@WINDOWS
@pytest.mark.parametrize("dead", DEATHS, ids="+".join)
def test_a_query_goes_on_when_sites_die_and_return(algorithm: Algorithm, window: Window, dead: tuple[str, ...]) -> None:
    cluster = running(algorithm, window=window)
    feed(cluster, 0)
    feed(cluster, 30)
    cluster.restart(*dead)
    cluster.settle()
    assert cluster.state is QueryState.RUNNING
    feed(cluster, 60)
    finish(cluster, 90)
    check_whole(cluster)


def as_the_version_before_kept_it(record: Record) -> Record:
    """A query's record by a daemon that did not say what integers count that are event times."""
    kept = records_pb2.HomeRecord.FromString(record_out(record).value)
    _, prepare, _ = unpack(Packed(kept.prepare))
    message = link_pb2.Message.FromString(prepare)
    for stream in message.prepare.streams:
        stream.ClearField("ts_scale")
    kept.prepare = pack((), message.SerializeToString(), ()).payload
    (found,) = recovered({RecordKind.HOME: {record.query_id: kept.SerializeToString()}}, {}).homes
    return found


def test_a_query_of_streams_in_seconds_goes_on_that_the_version_before_issued() -> None:
    cluster = Cluster()
    cluster.infos = {name: replace(info, ts_scale=1000) for name, info in cluster.infos.items()}
    cluster.restart("ash", "bow", "cam")
    cluster.settle()
    cluster.issue("cam")
    cluster.settle()
    feed(cluster, 0)
    records = cluster.records["cam"]
    records[RecordKind.HOME, "q1"] = as_the_version_before_kept_it(records[RecordKind.HOME, "q1"])
    cluster.restart("cam")
    cluster.settle()
    assert (cluster.state, cluster.reason) == (QueryState.RUNNING, "")
    feed(cluster, 30)
    finish(cluster, 60)
    check_whole(cluster)


@pytest.mark.parametrize("algorithm", [Algorithm.SP_D, Algorithm.SP_S])
def test_how_far_a_query_is_that_goes_on_is_known_until_it_is_where_it_was(algorithm: Algorithm) -> None:
    cluster = running(algorithm)
    feed(cluster, 0)
    # These are sealed, and no walk of them is done when ash dies.
    cluster.arrive("l", 30, 34, 41)
    cluster.arrive("r", 32, 34, 43)
    home = cluster.sites["cam"].homes["q1"]
    assert (home.loss, home.catching_up) == ("", ())
    done = dict(home.sink.frontiers) if home.sink is not None else {}
    cluster.restart("ash")
    cluster.hold_logs = True
    told, behind = set[HeadProgress](), set[tuple[str, str]]()
    while any(cluster.mail.values()) or any(cluster.answers.values()) or any(cluster.log_news.values()):
        pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
        site = next((site for site, answers in cluster.answers.items() if answers), None)
        if pair is not None:
            cluster.deliver(*pair)
        elif site is not None:
            cluster.answer(site)
        else:
            cluster.hear_logs()
        told |= {*home.catching_up}
        for name in ("ash", "bow"):
            behind |= {(name, one.what) for one in cluster.sites[name].catching_up() if one.tick < one.goal}
    heads = {one.head for one in told}
    assert "ash" in home.loss
    assert heads == {"a", "b"}
    assert all(done[one.head] <= one.begun <= one.done and one.begun < one.goal for one in told)
    # With a full copy of the other no walk looks at a site's own stream: heads alone read it.
    filled = {Algorithm.SP_D: {"window"}, Algorithm.SP_S: {"head", "copy"}}.get(algorithm, {"window", "copy"})
    assert behind == {(site, what) for site in ("ash", "bow") for what in filled}, "both began again"
    assert home.catching_up == ()
    assert cluster.sites["ash"].catching_up() == []


@EVERY
@pytest.mark.parametrize("sink", ["ash", "bow", "cam"])
@pytest.mark.parametrize("dead", ["ash", "bow", "cam"])
def test_a_site_that_dies_amid_everything_loses_no_row_and_brings_none_twice(
    algorithm: Algorithm, sink: str, dead: str
) -> None:
    """It dies after each of the first messages in turn."""
    for steps in itertools.count(0, 3):
        cluster = running(algorithm, sink)
        feed(cluster, 0)
        cluster.arrive("l", 30, 34, 41)
        cluster.arrive("r", 32, 34, 43)
        for _ in range(steps):
            pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
            site = next((site for site, answers in cluster.answers.items() if answers), None)
            if pair is not None:
                cluster.deliver(*pair)
            elif site is not None:
                cluster.answer(site)
        is_over = not any(cluster.mail.values()) and not any(cluster.answers.values())
        cluster.restart(dead)
        cluster.settle()
        feed(cluster, 60)
        finish(cluster, 90)
        check_whole(cluster)
        if is_over:
            return


@EVERY
@pytest.mark.parametrize("pair", [("ash", "bow"), ("cam", "ash"), ("bow", "cam")], ids="-".join)
def test_a_session_that_is_lost_without_a_crash_costs_no_row(algorithm: Algorithm, pair: tuple[str, str]) -> None:
    cluster = running(algorithm)
    feed(cluster, 0)
    cluster.arrive("l", 30, 34, 41)
    cluster.arrive("r", 32, 34, 43)
    cluster.lose_session(*pair)
    cluster.settle()
    assert generation_of(cluster) != FIRST_GENERATION
    feed(cluster, 60)
    finish(cluster, 90)
    check_whole(cluster)


@EVERY
def test_one_crash_after_the_other_during_recovery_is_survived(algorithm: Algorithm) -> None:
    cluster = running(algorithm)
    feed(cluster, 0)
    for dead in ("ash", "cam", "bow", "ash"):
        cluster.restart(dead)
        for pair in [pair for pair, mail in cluster.mail.items() if mail]:
            cluster.deliver(*pair)
    cluster.settle()
    feed(cluster, 30)
    finish(cluster, 60)
    check_whole(cluster)


def test_a_query_is_recovering_from_the_loss_until_all_are_ready() -> None:
    cluster = running()
    feed(cluster, 0)
    cluster.restart("ash")
    assert cluster.states[-1] == ("q1", QueryState.RECOVERING, f"site ash: {RESTARTED}")
    cluster.settle_but(("ash", "cam"))
    assert cluster.state is QueryState.RECOVERING
    cluster.settle()
    assert cluster.states[-1] == ("q1", QueryState.RUNNING, "")


# -- generations ------------------------------------------------------------------------------


def test_generations_rise_over_the_lives_of_a_home() -> None:
    cluster = running()
    seen = [generation_of(cluster)]
    for dead in ("ash", "bow", "cam", "ash", "cam"):
        cluster.restart(dead)
        cluster.settle()
        seen.append(generation_of(cluster))
    assert seen[0] == FIRST_GENERATION
    assert seen == sorted(set(seen))


def test_a_site_that_is_prepared_again_says_so_to_the_others_before_all_else() -> None:
    cluster = running()
    feed(cluster, 0)
    cluster.restart("ash")
    cluster.settle()
    generation = generation_of(cluster)
    for site in cluster.sites:
        told = [
            (effect.peer, effect.message)
            for name, effect in cluster.effects
            if name == site and isinstance(effect, Send) and isinstance(effect.message, Fence)
        ]
        others = {other for other in cluster.sites if other != site}
        assert {peer for peer, fence in told if fence.generation == generation} == others


def test_a_prepare_of_a_void_generation_is_wrong() -> None:
    cluster = running()
    (first,) = {message for message in cluster.sent(Prepare) if isinstance(message, Prepare)}
    cluster.restart("ash")
    cluster.settle()
    cluster.say("cam", "bow", first)
    assert [peer for peer, _ in cluster.blamed] == ["cam"]


def old_message(name: str) -> Message:
    span = Span(TICK_MIN, 3)
    found: dict[str, Message] = {
        "carry": Carry("q1", "a", span, 0, 0, b""),
        "question": AskMatches("q1", "a", span, 0, 0, 0, 25, 0, b""),
        "lease": LeaseCopy("q1", 1, 0),
        "rows": Rows("q1", "a", span, 0, b""),
    }
    return found[name]


@pytest.mark.parametrize("name", ["carry", "question", "lease", "rows"])
def test_what_a_site_says_before_its_fence_belongs_to_the_generation_before(name: str) -> None:
    cluster = running()
    feed(cluster, 0)
    cluster.restart("ash")
    while not isinstance(cluster.deliver("cam", "bow"), Prepare):
        pass
    cluster.ignored.clear()
    message = old_message(name)
    if name == "rows":
        cluster.settle_but(("ash", "cam"))
        cluster.say("ash", "cam", message)
    else:
        cluster.say("ash", "bow", message)
    assert IgnoreReason.OTHER_GENERATION in cluster.ignored
    assert cluster.blamed == []
    cluster.settle()
    feed(cluster, 30)
    finish(cluster, 60)
    check_whole(cluster)


def test_the_tuples_of_an_answer_to_a_void_walk_go_to_the_copy_that_another_query_uses() -> None:
    """The owner will not send them again."""
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SM_S1, "q1")
    cluster.issue("ash", Algorithm.SM_S1, "q2")
    cluster.settle()
    cluster.arrive("l", 1, 5, 25)
    cluster.arrive("r", 2, 6, 26)
    cluster.settle_but(("bow", "ash"))
    assert any(isinstance(message, TupleAnswer) for message in cluster.mail["bow", "ash"])
    cluster.lose_session("cam", "ash")  # q1 begins again, q2 knows nothing of it
    cluster.settle()
    cluster.arrive("l", 31, ended=True)
    cluster.arrive("r", 32, ended=True)
    cluster.settle()
    for query_id in ("q1", "q2"):
        assert cluster.results(query_id) == cluster.oracle() != []
    assert cluster.leftovers() == []


def test_a_copy_that_was_opened_for_a_void_generation_is_opened_and_closed_again() -> None:
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SM_D1)
    for site in ("ash", "bow"):
        cluster.deliver("cam", site)
        cluster.deliver(site, "cam")
    cluster.deliver("cam", "bow")  # the start: an opening is under way to ash
    assert isinstance(cluster.mail["bow", "ash"][0], OpenCopy)
    cluster.lose_session("cam", "ash")
    cluster.settle()
    assert cluster.blamed == []
    feed(cluster, 0)
    finish(cluster, 30)
    check_whole(cluster)


def test_a_loss_that_home_knows_of_is_not_another_one() -> None:
    cluster = running()
    cluster.restart("ash")
    cluster.settle()
    generation = generation_of(cluster)
    cluster.say("bow", "cam", Lost("q1", FIRST_GENERATION, "late news"))
    assert generation_of(cluster) == generation
    assert cluster.ignored[-1] is IgnoreReason.OTHER_GENERATION


def test_a_head_that_reads_the_log_has_each_batch_once_although_its_table_goes_on() -> None:
    cluster = Cluster()
    cluster.issue("cam", query_id="q1")
    cluster.issue("ash", query_id="q2")  # it keeps the table, and the stream going
    cluster.settle()
    cluster.hold_stores = True  # nothing more is done
    feed(cluster, 0)
    feed(cluster, 30)
    cluster.hold_logs = True
    cluster.lose_session("cam", "ash")
    cluster.settle()
    assert cluster.sites["ash"].runs["q1"].is_behind("a")
    cluster.arrive("l", 60, 71)
    logged = cluster.log_news["ash"].pop()  # before what is read for q1
    assert isinstance(logged, BatchLogged)
    cluster.give("ash", logged)
    cluster.hold_logs = False
    cluster.hear_logs()
    cluster.settle()
    assert not cluster.sites["ash"].runs["q1"].is_behind("a")
    cluster.hold_stores = False
    for site in ("ash", "cam"):
        while cluster.storing[site]:
            cluster.finish_store(site)
    cluster.settle()
    finish(cluster, 90)
    assert IgnoreReason.DUPLICATE_WALK not in cluster.ignored
    for query_id in ("q1", "q2"):
        assert cluster.results(query_id) == cluster.oracle() != []
    assert cluster.leftovers() == []


def test_fences_of_what_is_unknown_are_forgotten_before_those_of_a_query_that_goes_on() -> None:
    cluster = Cluster(Limits(news_us=0, fences_max=3))
    cluster.issue("cam")
    cluster.settle()
    feed(cluster, 0)
    cluster.restart("ash")
    cluster.settle()
    for number in range(9):
        cluster.say("ash", "bow", Fence(f"unknown-{number}", 7))
    fences = cluster.sites["bow"]._participant.fences.places
    assert len(fences) == 3
    assert {("ash", "q1"), ("cam", "q1")} < set(fences)
    feed(cluster, 30)
    finish(cluster, 60)
    check_whole(cluster)


# -- islands ----------------------------------------------------------------------------------


def test_what_is_stored_or_being_stored_beyond_a_gap_is_not_walked_again() -> None:
    cluster = running()
    cluster.hold_stores = True
    for first in (0, 30, 60, 90):
        feed(cluster, first)
    storing = list(cluster.storing["cam"])
    heads = [effect.head for effect in storing]
    assert heads.count("a") >= 3
    _, second, *_ = (place for place, effect in enumerate(storing) if effect.head == "a")
    cluster.finish_store("cam", second)  # stored beyond a gap; all others are being stored
    cluster.restart("bow")
    cluster.settle()
    (start,) = {message for message in cluster.sent(Start) if isinstance(message, Start) and message.resumed}
    assert start.resumed is not None
    assert {(effect.head, effect.span) for effect in storing} <= set(start.resumed.islands)
    assert len(cluster.storing["cam"]) == len(storing) - 1, "nothing of them came again"
    while cluster.storing["cam"]:
        cluster.finish_store("cam")
    cluster.hold_stores = False
    cluster.settle()
    finish(cluster, 120)
    check_whole(cluster)


def test_what_was_being_stored_when_home_died_is_walked_again_and_what_was_stored_is_not() -> None:
    cluster = running()
    cluster.hold_stores = True
    for first in (0, 30, 60):
        feed(cluster, first)
    cluster.finish_store("cam", 2)
    lost = len(cluster.storing["cam"])
    assert lost >= 3
    cluster.hold_stores = False
    cluster.restart("cam")
    cluster.settle()
    finish(cluster, 90)
    check_whole(cluster)


# -- logs and pins ----------------------------------------------------------------------------


def test_a_log_that_lacks_what_was_delivered_is_refused_with_its_ticks() -> None:
    cluster = running()
    feed(cluster, 0)
    feed(cluster, 30)
    cluster.empty_disk("bow")
    cluster.restart("bow")
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert cluster.reason == (
        "site bow refused: data loss: stream r requires its log; "
        "got one without ticks start to 4, of which results were delivered: "
        "it was dropped here by a user, or had failed here, or the site began anew"
    )
    assert cluster.leftovers() == []


def test_a_log_that_lacks_what_results_are_still_to_be_found_with_is_refused_with_its_ticks() -> None:
    cluster = running()
    for first in (0, 30, 60, 75):
        feed(cluster, first)
    log = cluster.stream_logs["r"]
    assert [str(batch.span) for batch in log._batches] == ["[4, 7)", "[7, 8)"]
    log.trim(7)
    cluster.restart("bow")
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    # Done up to 8, and the window is three ticks long.
    assert cluster.reason == (
        "site bow refused: data loss: stream r requires its log; "
        "got one without ticks 5 to 7, which results are still to be found with"
    )
    assert cluster.leftovers() == []


@pytest.mark.parametrize("pinned", [True, False], ids=["known to the backup", "begun after it"])
def test_a_site_restored_from_a_backup_refuses_what_was_found_with_ticks_that_it_lost(pinned: bool) -> None:
    """Its log may go on by now, with other tuples in those ticks: where it ended in the backup is what counts."""
    cluster = running()
    feed(cluster, 0)
    feed(cluster, 30)
    pin = cluster.records["bow"].pop((RecordKind.PIN, "q1"))
    assert isinstance(pin, PinRecord)
    if pinned:
        cluster.records["bow"][RecordKind.PIN, "q1"] = replace(pin, restored=(("r", 2),))
    cluster.restart("bow")
    cluster.sites["bow"].streams["r"].restored_to = 2
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert cluster.reason.startswith(
        "site bow refused: data loss: stream r requires its log; "
        "got one without ticks 2 to 4, since its site was restored from a backup"
    )
    assert cluster.leftovers() == []


def test_a_query_goes_on_with_a_restored_site_if_its_backup_has_all_that_results_were_found_with() -> None:
    cluster = running()
    feed(cluster, 0)
    feed(cluster, 30)
    pin = cluster.records["bow"][RecordKind.PIN, "q1"]
    assert isinstance(pin, PinRecord)
    cluster.records["bow"][RecordKind.PIN, "q1"] = replace(pin, restored=(("r", 4),))
    for first in (60, 90):
        cluster.restart("bow")
        cluster.sites["bow"].streams["r"].restored_to = 4
        cluster.settle()
        # It has gone on since: what it finds now is in the log.
        assert cluster.records["bow"][RecordKind.PIN, "q1"] == pin
        feed(cluster, first)
    finish(cluster, 120)
    check_whole(cluster)


@WINDOWS
def test_a_log_is_trimmed_while_a_query_runs_and_reaches_back_by_its_window(window: Window) -> None:
    cluster = running(window=window)
    for first in range(0, 300, 30):
        feed(cluster, first)
    trimmed = {trim.stream: trim.tick for trim in cluster.trims}
    sink = cluster.sites["cam"].homes["q1"].sink
    assert sink is not None
    done = min(tick for _, tick in sink.frontiers)
    assert trimmed.keys() == {"l", "r"}
    for tick in trimmed.values():
        assert done - 10 < tick <= done - 1
        if window[0] == "range":
            assert tick * TAU_MS <= done * TAU_MS - 30


def test_home_forgets_nothing_by_what_it_would_not_know_after_a_crash() -> None:
    """Nobody else takes part and news may wait: done moves here, and is not kept."""
    cluster = Cluster(Limits(news_us=10_000_000, news_held_max=64), right="ash")
    cluster.issue("ash")
    for first in range(0, 150, 30):
        cluster.arrive("l", first, first + 11)
        cluster.arrive("r", first + 2, first + 13)
        cluster.settle_but()
    assert min(cluster.sites["ash"].runs["q1"].done.values()) > 10
    assert (RecordKind.DONE, "q1") not in cluster.records["ash"]
    assert cluster.trims == []
    cluster.restart("ash")
    cluster.settle()
    finish(cluster, 150)
    check_whole(cluster)


def test_a_query_is_kept_from_when_it_is_issued() -> None:
    cluster = Cluster()
    cluster.issue("cam")
    cluster.restart("cam")
    cluster.settle()
    feed(cluster, 0)
    finish(cluster, 30)
    check_whole(cluster)


def test_done_is_kept_before_it_is_told_to_others_and_before_logs_are_cut_by_it() -> None:
    cluster = running(sink="ash")
    for first in range(0, 150, 30):
        feed(cluster, first)
    kept: dict[str, int] = {}
    told = cut = 0
    for site, effect in cluster.effects:
        if site != "ash":
            continue
        if isinstance(effect, KeepRecord) and isinstance(effect.record, DoneRecord):
            kept = dict(effect.record.done)
        elif isinstance(effect, Send) and isinstance(effect.message, Done):
            told += 1
            assert all(tick <= kept.get(head, TICK_MIN) for head, tick in effect.message.frontiers if tick > TICK_MIN)
        elif isinstance(effect, TrimLog):
            cut += 1
            assert effect.tick <= min(kept.values())
    assert told > 3
    assert cut > 0


@pytest.mark.parametrize("dead", ["ash", "bow"])
def test_done_is_kept_before_another_generation_is_told_of_it(dead: str) -> None:
    """Rows are stored beyond what home kept: after the next crash it may find neither them nor the log."""
    cluster = Cluster(Limits(news_us=10_000_000, news_held_max=64))
    cluster.issue("ash")
    cluster.settle_but()
    cluster.hold_stores = True
    for first in range(0, 150, 30):
        cluster.arrive("l", first, first + 11)
        cluster.arrive("r", first + 2, first + 13)
        cluster.settle_but()
    while cluster.storing["ash"]:
        cluster.finish_store("ash")
    cluster.hold_stores = False
    home = cluster.sites["ash"].homes["q1"]
    assert home.sink is not None
    assert home.kept_done != home.sink.frontiers
    cluster.effects.clear()
    cluster.restart(dead)
    cluster.settle()
    kept: dict[str, int] = {}
    told = 0
    for site, effect in cluster.effects:
        if site == "ash" and isinstance(effect, KeepRecord) and isinstance(effect.record, DoneRecord):
            kept = dict(effect.record.done)
        elif isinstance(effect, Send) and isinstance(effect.message, Prepare | Start) and effect.message.resumed:
            told += 1
            assert all(tick <= kept[head] for head, tick in effect.message.resumed.done)
    assert told == 2
    assert min(kept.values()) > 10
    finish(cluster, 150)
    check_whole(cluster)


def test_home_tells_itself_what_is_done_when_it_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(Limits(news_us=10_000_000, news_held_max=64))
    cluster.issue("cam")
    cluster.settle_but()
    for first in range(0, 90, 30):
        cluster.arrive("l", first, first + 11)
        cluster.arrive("r", first + 2, first + 13)
        cluster.settle_but()
    assert not cluster.sites["cam"].homes["q1"].all_told
    told: list[Done] = []
    monkeypatch.setattr(cluster.sites["cam"]._participant, "on_done", lambda _, message: told.append(message))
    for _ in range(3):
        cluster.give("cam", ClockAdvanced())
    assert told == []


def test_a_pin_is_kept_before_a_site_says_that_it_is_ready() -> None:
    cluster = running()
    for site in ("ash", "bow"):
        kinds = [
            type(effect.record if isinstance(effect, KeepRecord) else effect.message).__name__
            for name, effect in cluster.effects
            if name == site and isinstance(effect, KeepRecord | Send)
        ]
        assert kinds.index("PinRecord") < kinds.index("Prepared")


# -- a site that is not in the configuration any more -----------------------------------------


def start_without(cluster: Cluster, site: str, gone: str) -> None:
    """A site is started again with a configuration in which another one is not."""
    cluster._kill(site)
    cluster._new_site(site)
    peers = [other for other in cluster.sites if other not in (site, gone)]
    cluster.sites[site].watch_links(peers, lambda _: 0)
    cluster.effects.clear()
    cluster.give(site, SiteStarted())


def heard_of(cluster: Cluster, gone: str) -> list[Message]:
    return [effect.message for _, effect in cluster.effects if isinstance(effect, Send) and effect.peer == gone]


def test_a_query_of_a_site_that_left_fails_at_its_home_with_the_reason() -> None:
    cluster = running()
    feed(cluster, 0)
    start_without(cluster, "cam", "bow")
    assert (cluster.state, cluster.reason) == (
        QueryState.FAILED,
        "site cam requires links with all sites of a query; got none with bow: the configuration has changed",
    )
    assert heard_of(cluster, "bow") == []
    assert IgnoreReason.UNKNOWN_SITE in cluster.ignored


def test_a_query_whose_home_left_can_be_dropped() -> None:
    cluster = running()
    feed(cluster, 0)
    start_without(cluster, "bow", "cam")
    assert list(cluster.sites["bow"].pins) == ["q1"]
    cluster.give("bow", DropRequested("q1"))
    assert list(cluster.sites["bow"].pins) == []
    assert heard_of(cluster, "cam") == []
    assert cluster.ignored == [IgnoreReason.UNKNOWN_SITE] * 2


# -- what is over -----------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True], ids=["unknown to its home", "dropped"])
def test_a_site_that_returns_with_the_pin_of_a_query_that_is_over_is_told_to_drop_it(known: bool) -> None:
    cluster = running()
    feed(cluster, 0)
    cluster.settle_but(("cam", "bow"))
    if known:
        cluster.give("cam", DropRequested("q1"))
    else:
        cluster.empty_disk("cam")
        cluster.restart("cam")
    cluster.mail["cam", "bow"].clear()
    assert cluster.sites["bow"].pins == ("q1",)
    cluster.restart("bow")
    assert Returned("q1") in cluster.mail["bow", "cam"]
    cluster.deliver("bow", "cam", cluster.mail["bow", "cam"].index(Returned("q1")) + 1)
    assert Drop("q1") in cluster.mail["cam", "bow"]
    cluster.settle()
    assert cluster.leftovers() == []
    assert cluster.records["bow"] == {}


def test_a_site_that_meets_a_home_that_died_asks_whether_it_is_still_needed() -> None:
    cluster = running()
    feed(cluster, 0)
    cluster.restart("cam")
    for site in ("ash", "bow"):
        assert Returned("q1") in cluster.mail[site, "cam"]
    cluster.settle()
    assert cluster.state is QueryState.RUNNING


def test_a_query_whose_rows_are_all_stored_waits_for_nobody() -> None:
    """bow is gone, maybe for good, when the last rows are stored."""
    cluster = running()
    feed(cluster, 0)
    cluster.hold_stores = True
    finish(cluster, 30)
    cluster.restart("bow")
    away = [pair for pair in itertools.permutations(cluster.sites, 2) if "bow" in pair]
    cluster.settle_but(*away)
    assert cluster.state is QueryState.RECOVERING
    while cluster.storing["cam"]:
        cluster.finish_store("cam")
    assert (cluster.state, cluster.reason) == (QueryState.COMPLETED, "")
    cluster.settle()
    check_whole(cluster)


def test_a_query_whose_rows_are_all_stored_is_complete_when_its_home_returns() -> None:
    cluster = running()
    feed(cluster, 0)
    cluster.hold_stores = True
    finish(cluster, 30)
    cluster.walks["q1"] += [(effect.head, effect.span) for effect in cluster.storing["cam"]]
    cluster.stored["q1"] += [effect.rows for effect in cluster.storing["cam"]]
    cluster.restart("cam")
    assert (cluster.state, cluster.reason) == (QueryState.COMPLETED, "")
    cluster.settle()
    check_whole(cluster)


def test_a_query_that_ended_before_its_home_died_is_told_again_and_not_begun_again() -> None:
    cluster = running()
    feed(cluster, 0)
    finish(cluster, 30)
    check_whole(cluster)
    count = len(cluster.states)
    cluster.restart("cam")
    cluster.settle()
    assert cluster.states[count:] == [("q1", QueryState.COMPLETED, "")]
    assert cluster.leftovers() == []


def test_a_query_whose_rows_are_broken_ends_everywhere_and_for_good_when_its_home_returns() -> None:
    cluster = running()
    feed(cluster, 0)
    recovered = cluster._recovered
    cluster._recovered = lambda name: replace(recovered(name), broken={"q1": "a row is lost"})  # type: ignore[method-assign]
    for _ in range(2):
        cluster.restart("cam")
        cluster.settle()
        assert cluster.states[-1] == ("q1", QueryState.FAILED, "a row is lost")
        assert cluster.holds_nothing()
        cluster._recovered = recovered  # type: ignore[method-assign]


def test_a_home_that_returns_forgets_queries_of_which_it_has_nothing_but_records() -> None:
    cluster = running()
    feed(cluster, 0)
    kept = cluster.records["cam"]
    assert {query_id for _, query_id in kept} == {"q1"}
    recovered = cluster._recovered
    cluster._recovered = lambda name: replace(recovered(name), homes=(), leftovers=("q1",))  # type: ignore[method-assign]
    cluster.restart("cam")
    cluster.settle()
    assert kept == {}
    assert cluster.holds_nothing()


@pytest.mark.parametrize("dead", ["ash", "cam"])
def test_a_query_by_policy_delta_ends_with_its_reason(dead: str) -> None:
    cluster = Cluster(policy=Policy(PolicyName.DELTA, 1_000))
    cluster.issue("cam")
    cluster.settle()
    cluster.restart(dead)
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    cause = "site cam was restarted" if dead == "cam" else f"site ash: {RESTARTED}"
    assert cluster.reason == f"{cause} (a query by policy delta does not outlive that)"
    assert cluster.leftovers() == []


def test_all_batches_that_are_read_at_once_for_a_head_that_is_behind_its_table_walk() -> None:
    """Another query's table is ahead when one goes on; its log gives several batches in one piece."""
    cluster = Cluster(retain_ms=(1_000, 1_000))
    for query_id in ("q0", "q1"):
        cluster.issue("cam", Algorithm.SP_D, query_id)
    cluster.settle()
    cluster.hold_stores = True
    for first in (0, 30, 60):
        feed(cluster, first)
    finish(cluster, 100)
    cluster.restart("cam")
    cluster.hold_stores = False
    cluster.settle()
    assert cluster.results("q0") == cluster.results("q1") == cluster.oracle() != []
