"""How home learns what it plans by: questions to the sites, their answers on the wire, and what links can carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from node.core.effects import Effect, MeasureStream, ReportStatistics, Send
from node.core.errors import PeerProtocolError
from node.core.events import BandwidthMeasured, ClockAdvanced, LinkMeasured, StatisticsRequested, StreamMeasured
from node.core.limits import Limits
from node.core.links.bandwidth import BandwidthMeter
from node.core.links.causes import Cause, Purpose, Traffic, cause_of
from node.core.links.messages import (
    AskProfile,
    Carry,
    LeaseCopy,
    LinkSeen,
    Message,
    Profiles,
    Refused,
    Rows,
    RunningCounts,
    Sync,
)
from node.core.links.outbox import Outbox
from node.core.planning.profile import profile_of, sample_of
from node.core.planning.survey import Survey
from node.core.streams.derived import DerivedStream
from node.core.streams.log_extent import LogExtent, LoggedBatch
from node.core.streams.ticks import Span
from node.rpc import link_pb2 as pb
from node.wire import decode_message, encode_message
from node.wire.profiles import profiles_in, profiles_out
from planner.algorithms.descriptions import CopyKind
from planner.estimate.statistics import HASH_END, KeySketch, StreamProfile
from planner.model.copies import copy_of
from planner.sql.parser import parse_query
from tests.unit.sites import QUERY, TAU_MS, Cluster

TIMES = np.array([1_700_000_000_000_000, 1_700_000_100_000_000])
SKETCH = KeySketch(np.array([1, 5], np.uint64) << np.uint64(32), np.array([3, 1]), 9 << 32, TIMES, TIMES + 300_000)
PROFILE = StreamProfile(4, 2_000_000, 1.5, {"__ts": 0.25, "key": 2.0}, {("key",): SKETCH})
LINKS = (LinkSeen("bow", 1234, None), LinkSeen("cam", None, 5e6))


def cluster() -> Cluster:
    """Streams l at ash and r at bow; a query's home is cam."""
    return Cluster()


def ask(sites: Cluster, request_id: str = "cam?1") -> None:
    query = parse_query(QUERY, sites.sites["cam"].catalogue)
    sites.give("cam", StatisticsRequested(request_id, query))


def measuring(sites: Cluster) -> list[tuple[str, MeasureStream]]:
    return [(site, effect) for site, effect in sites.effects if isinstance(effect, MeasureStream)]


def reported(sites: Cluster) -> list[Effect]:
    return [effect for _, effect in sites.effects if isinstance(effect, ReportStatistics)]


def test_home_asks_the_sites_and_reports_what_they_measured() -> None:
    sites = cluster()
    sites.give("ash", BandwidthMeasured("cam", 1.0))
    sites.give("ash", LinkMeasured("bow", 1234, 9e6))
    sites.give("ash", BandwidthMeasured("bow", 5e6))
    sites.give("cam", LinkMeasured("ash", 99))
    ask(sites)
    sites.settle_mail()
    assert [(site, effect.alias) for site, effect in measuring(sites)] == [("ash", "a"), ("bow", "b")]
    for site, effect in measuring(sites):
        sites.give(site, StreamMeasured(effect.request_id, effect.alias, PROFILE))
    sites.settle_mail()
    (report,) = reported(sites)
    assert isinstance(report, ReportStatistics)
    assert set(report.profiles) == {"a", "b"}
    assert report.missing == {}
    assert report.links["ash"] == (LinkSeen("bow", 1234, 5e6),)
    assert report.links["cam"] == (LinkSeen("ash", 99, None),)


def test_a_stream_that_was_read_is_measured_by_its_newest_batches() -> None:
    sites = cluster()
    sites.issue("cam")
    sites.settle_mail()
    sites.arrive("l", 10, 20, 500)
    ask(sites)
    sites.settle_mail()
    by_alias = {effect.alias: effect for _, effect in measuring(sites)}
    assert by_alias["b"].batches == ()
    sample = sample_of(by_alias["a"].batches)
    assert sample.ts.tolist() == [10, 20]
    assert profile_of(by_alias["a"].query, "a", TAU_MS, sample).rows == 2


def test_a_site_that_does_not_answer_is_left_out_after_a_while() -> None:
    sites = cluster()
    ask(sites)
    sites.deliver("cam", "ash")
    (_, effect), *_ = measuring(sites)
    sites.give("ash", StreamMeasured(effect.request_id, "a", PROFILE))
    sites.deliver("ash", "cam")
    sites.give("cam", ClockAdvanced())
    assert reported(sites) == []
    sites.now_us += 5_000_000
    sites.give("cam", ClockAdvanced())
    (report,) = reported(sites)
    assert isinstance(report, ReportStatistics)
    assert list(report.profiles) == ["a"]
    assert report.missing == {"b": "site bow did not answer within 5 s"}
    # What comes too late harms nothing.
    sites.settle_mail()
    for site, late in measuring(sites)[1:]:
        sites.give(site, StreamMeasured(late.request_id, late.alias, PROFILE))
    sites.settle_mail()
    assert len(reported(sites)) == 1


def test_a_stream_that_cannot_be_measured_is_reported_with_the_reason() -> None:
    sites = cluster()
    ask(sites)
    sites.settle_mail()
    for site, effect in measuring(sites):
        sites.give(site, StreamMeasured(effect.request_id, effect.alias, None, "the file is gone"))
    sites.settle_mail()
    (report,) = reported(sites)
    assert isinstance(report, ReportStatistics)
    assert report.missing == {"a": "the file is gone", "b": "the file is gone"}


def test_a_site_that_knows_the_stream_otherwise_refuses() -> None:
    sites = cluster()
    query = parse_query(QUERY, sites.sites["cam"].catalogue)
    wrong = tuple(replace(ref.stream, ts="n") for ref in query.streams)
    sites.say("cam", "ash", AskProfile("cam?1", QUERY, wrong))
    (answer,) = sites.mail["ash", "cam"]
    assert isinstance(answer, Refused)
    assert "stream l requires the same columns at both sites" in answer.reason


def test_nobody_can_speak_for_the_streams_of_others() -> None:
    sites = cluster()
    ask(sites)
    sites.say("ash", "cam", Profiles("cam?1", (("a", PROFILE), ("b", PROFILE))))
    sites.say("bow", "cam", Profiles("cam?1", ()))
    (report,) = reported(sites)
    assert isinstance(report, ReportStatistics)
    assert list(report.profiles) == ["a"]
    assert report.missing == {"b": "site bow said nothing of it"}


def test_a_site_tells_which_copies_of_the_streams_asked_about_run() -> None:
    sites = cluster()
    query = parse_query(QUERY, sites.sites["cam"].catalogue)
    copy = copy_of(query, CopyKind.KEYS, "a", ("key",), "bow")
    outbox = Outbox("ash")
    others = (replace(copy, stream="other"), replace(copy, owner="cam"))
    planning = Survey(TAU_MS, sites.sites["ash"].streams, Limits(), outbox, lambda: (*others, copy))
    planning.on_ask("cam", AskProfile("cam?1", QUERY, tuple(ref.stream for ref in query.streams)))
    planning.on_measured(StreamMeasured("cam?1", "a", PROFILE))
    answers = [effect.message for effect in outbox.take_effects() if isinstance(effect, Send)]
    assert [answer.copies for answer in answers if isinstance(answer, Profiles)] == [(copy,)]


def test_home_reports_the_copies_that_owners_tell_of() -> None:
    sites = cluster()
    ask(sites)
    query = parse_query(QUERY, sites.sites["cam"].catalogue)
    left, right = (copy_of(query, CopyKind.FULL, alias, (), "cam") for alias in ("a", "b"))
    sites.say("ash", "cam", Profiles("cam?1", (("a", PROFILE),), copies=(left, right)))
    sites.say("bow", "cam", Profiles("cam?1", (("b", PROFILE),), copies=(replace(left, holder="bow"),)))
    (report,) = reported(sites)
    assert isinstance(report, ReportStatistics)
    assert report.copies == (left,)


def test_a_site_tells_what_the_logs_hold_of_joins_that_it_keeps() -> None:
    """Not what those of its own streams do."""
    sites = cluster()
    query = parse_query(QUERY, sites.sites["cam"].catalogue)
    outbox, streams = Outbox("ash"), dict(sites.sites["ash"].streams)
    for name, nbytes in (("cam-1-1.pairs", 3_000), ("cam-1-2.pairs", 500)):
        info = replace(query.ref("a").stream, name=name)
        streams[name] = DerivedStream(info, TAU_MS, LogExtent((LoggedBatch(0, 9, 7, nbytes),), 7, None, None))
    planning = Survey(TAU_MS, streams, Limits(), outbox)
    planning.on_ask("cam", AskProfile("cam?1", QUERY, tuple(ref.stream for ref in query.streams)))
    planning.on_measured(StreamMeasured("cam?1", "a", PROFILE))
    answers = [effect.message for effect in outbox.take_effects() if isinstance(effect, Send)]
    assert [answer.kept_bytes for answer in answers if isinstance(answer, Profiles)] == [3_500]


def test_home_reports_what_is_kept_at_each_site_and_at_its_own() -> None:
    sites = cluster()
    ask(sites)
    sites.say("ash", "cam", Profiles("cam?1", (("a", PROFILE),), kept_bytes=3_500))
    sites.say("bow", "cam", Profiles("cam?1", (("b", PROFILE),)))
    (report,) = reported(sites)
    assert isinstance(report, ReportStatistics)
    assert report.kept_bytes == {"ash": 3_500, "bow": 0, "cam": 0}


# On the wire.


def test_a_question_and_its_answer_come_back_as_they_were() -> None:
    streams = tuple(ref.stream for ref in parse_query(QUERY, cluster().sites["cam"].catalogue).streams)
    question = AskProfile("cam?1", QUERY, streams)
    assert decode_message(encode_message(question)) == question
    message = Profiles("cam?1", (("a", PROFILE),), (("b", "gone"),), LINKS, kept_bytes=2**40)
    back = decode_message(encode_message(message))
    assert isinstance(back, Profiles)
    assert (back.query_id, back.missing, back.links) == (message.query_id, message.missing, message.links)
    assert back.kept_bytes == message.kept_bytes
    ((alias, profile),) = back.profiles
    assert alias == "a"
    assert replace(profile, keys={}) == replace(PROFILE, keys={})
    same_sketch(profile.keys["key",], SKETCH)


@pytest.mark.parametrize(
    "sketch",
    [
        KeySketch(np.empty(0, np.uint64), np.empty(0, np.int64), HASH_END),
        KeySketch(np.array([0, 2**32 - 1], np.uint64) << np.uint64(32), np.array([1, 2**40]), HASH_END),
        replace(SKETCH, first_us=-TIMES[::-1], last_us=TIMES),
    ],
)
def test_sketches_come_back_as_they_were(sketch: KeySketch) -> None:
    body = profiles_out(Profiles("q", (("a", replace(PROFILE, keys={("key",): sketch})),)))
    ((_, back),) = profiles_in("q", body).profiles
    same_sketch(back.keys["key",], sketch)


def same_sketch(one: KeySketch, other: KeySketch) -> None:
    assert one.limit == other.limit
    assert one.hashes.tolist() == other.hashes.tolist()
    assert one.counts.tolist() == other.counts.tolist()
    for mine, theirs in ((one.first_us, other.first_us), (one.last_us, other.last_us)):
        if theirs is not None:
            assert mine is not None
            assert mine.tolist() == theirs.tolist()


def _descending(body: pb.Profiles) -> None:
    good = body.profiles[0].sketches[0]
    good.hashes = (
        profiles_out(
            Profiles("q", (("a", replace(PROFILE, keys={("key",): replace(SKETCH, hashes=SKETCH.hashes[::-1])})),))
        )
        .profiles[0]
        .sketches[0]
        .hashes
    )


def _set(change: Callable[[pb.Profile], None]) -> Callable[[pb.Profiles], None]:
    return lambda body: change(body.profiles[0])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_descending, "hashes that ascend"),
        (_set(lambda profile: setattr(profile.sketches[0], "limit", 5)), "hashes below its limit"),
        (_set(lambda profile: setattr(profile.sketches[0], "limit", 0)), "hashes below its limit"),
        (_set(lambda profile: setattr(profile.sketches[0], "counts", b"")), "a count for each key"),
        (_set(lambda profile: setattr(profile.sketches[0], "counts", b"\xff")), "number"),
        (_set(lambda profile: setattr(profile.sketches[0], "firsts", b"")), "times for each of its 2 keys"),
        (_set(lambda profile: setattr(profile.sketches[0], "time_unit_us", 2**61)), "times within"),
        (_set(lambda profile: setattr(profile, "batch_rows", float("nan"))), "the rows of a batch"),
        (_set(lambda profile: profile.columns.append("more")), "one size per column"),
        (_set(lambda profile: profile.column_bytes.__setitem__(0, float("inf"))), "the size of a column"),
        (_set(lambda profile: setattr(profile, "rows", 2**63)), "rows of a profile"),
        (lambda body: setattr(body.links[1], "bytes_per_s", -1.0), "a bandwidth"),
        (lambda body: setattr(body, "kept_bytes", 2**63), "bytes of kept joins"),
    ],
)
def test_an_answer_that_cannot_be_is_refused(change: Callable[[pb.Profiles], None], text: str) -> None:
    body = profiles_out(Profiles("cam?1", (("a", PROFILE),), (), LINKS))
    profiles_in("cam?1", body)
    change(body)
    with pytest.raises(PeerProtocolError, match=text):
        profiles_in("cam?1", body)


# What links carry.


def test_bandwidth_is_what_arrives_while_much_is_under_way() -> None:
    meter = BandwidthMeter()
    for part in range(1, 41):
        meter.sent(part, 25_000)
    assert meter.bytes_per_s is None
    # One megabyte a second: 25 kB every 25 ms.
    for part in range(1, 39):
        meter.acknowledged(part + 1, 25_000 * part, 10_000)
    assert meter.bytes_per_s == pytest.approx(1e6)


def test_a_link_that_is_not_busy_says_nothing_about_its_bandwidth() -> None:
    meter = BandwidthMeter()
    for part in range(1, 100):
        meter.sent(part, 25_000)
        meter.acknowledged(part + 1, 2_000_000 * part, 10_000)
    assert meter.bytes_per_s is None


def test_a_link_that_has_become_thin_is_known_soon() -> None:
    meter = BandwidthMeter()
    for part in range(1, 41):
        meter.sent(part, 25_000)
    for part in range(1, 41):
        meter.acknowledged(part + 1, 25_000 * part, 10_000)
    # From now on 6 kB a second, each two seconds acknowledged together; 20 kB a second are to be sent.
    part, sent, now_us = 41, 0, 1_000_000
    for second in range(1, 31):
        for _ in range(20):
            meter.sent(part + sent, 1_000)
            sent += 1
        now_us += 1_000_000
        if second % 2 == 0:
            meter.acknowledged(part + 6 * second, now_us, 10_000)
        if second == 12:
            early = meter.bytes_per_s
    assert early is not None
    assert meter.bytes_per_s == pytest.approx(6_000, rel=0.05)


def test_a_link_whose_news_is_held_back_is_not_taken_for_a_thin_one() -> None:
    """30 kB a second, each two seconds acknowledged together; what was sent within a round trip is under way then."""
    meter = BandwidthMeter()
    for second in range(1, 61):
        for part in range(10):
            meter.sent(10 * second + part, 3_000)
        if second % 2 == 0:
            meter.acknowledged(10 * second + 9, second * 1_000_000, 100_000)
    assert meter.bytes_per_s is None


def test_what_flew_when_the_connection_broke_is_not_counted() -> None:
    meter = BandwidthMeter()
    for part in range(1, 41):
        meter.sent(part, 25_000)
    meter.acknowledged(2, 0, None)
    meter.interrupted()
    meter.acknowledged(41, 30_000, None)
    assert meter.bytes_per_s is None


# What bytes are for.


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (Carry("q", "a", Span(1, 2), 1, 0, b""), Cause("q", Purpose.STEP, "a", 1)),
        (LeaseCopy("q", 3, 1), Cause("q", Purpose.COPY, "", 1)),
        (Sync(3, 2, 0, 0, b"", b"", b"", b""), Cause("", Purpose.COPY)),
        (Rows("q", "a", Span(1, 2), 0, b""), Cause("q", Purpose.RESULTS, "a")),
        (Refused("q", "no"), Cause("q", Purpose.CONTROL)),
    ],
)
def test_a_message_knows_what_it_is_for(message: Message, cause: Cause) -> None:
    assert cause_of(message) == cause


def test_traffic_adds_up_by_cause_peer_and_kind_and_forgets_old_queries() -> None:
    traffic = Traffic()
    step = Cause("q", Purpose.STEP, "a", 0)
    traffic.count(step, "bow", "tuples", 100, 10.0, False)
    traffic.count(step, "bow", "tuples", 50, 5.0, True)
    traffic.count(step, "cam", "tuples", 1, 1.0, True)
    ((_, peer, kind, sent), other) = traffic.flows()
    assert (peer, kind, sent.messages, sent.nbytes, sent.framing_bytes) == ("bow", "tuples", 1, 150, 15.0)
    assert other[1] == "cam"
    for number in range(200):
        traffic.count(Cause(f"q{number}", Purpose.RESULTS), "bow", "results", 1, 0, True)
    assert "q" not in [cause.query_id for cause, *_ in traffic.flows()]


# -- of a query that runs ---------------------------------------------------------------------


def test_of_a_query_that_runs_its_home_is_told_what_was_counted_and_no_stream_is_measured_for_that() -> None:
    sites = cluster()
    sites.issue("cam")
    sites.settle_mail()
    sites.arrive("l", 10, 20, 500)
    sites.settle_mail()
    query = parse_query(QUERY, sites.sites["cam"].catalogue)
    running = next(iter(sites.sites["cam"].homes))
    sites.give("cam", StatisticsRequested("cam?7", query, running, counts_only=True))
    sites.settle_mail()
    assert measuring(sites) == []
    (report,) = reported(sites)
    assert isinstance(report, ReportStatistics)
    assert set(report.counts) == {"ash", "bow", "cam"}
    assert dict(report.counts["ash"].ship_all)["a"] > 0
    assert report.counts["cam"].ship_all == ()


def test_streams_of_a_query_that_runs_are_measured_by_their_newest_past_alone() -> None:
    sites = cluster()
    sites.issue("cam")
    sites.settle_mail()
    for ts in range(0, 5_000, 100):
        sites.arrive("l", ts, ts + 1, ts + 2)
        sites.settle_mail()
    query = parse_query(QUERY, sites.sites["cam"].catalogue)
    running = next(iter(sites.sites["cam"].homes))
    past_us = 1_000_000
    sites.give("cam", StatisticsRequested("cam?7", query, running, past_us=past_us))
    sites.settle_mail()
    ((site, effect),) = measuring(sites)
    assert (site, effect.alias) == ("ash", "a")
    ts = sample_of(effect.batches).ts.tolist()
    assert min(ts) >= 3_800
    assert max(ts) >= 4_800
    assert effect.span_us is not None
    assert effect.span_us == pytest.approx(past_us, rel=0.2)
    sites.give("ash", StreamMeasured("cam?7", "a", PROFILE))
    sites.settle_mail()
    (report,) = reported(sites)
    assert isinstance(report, ReportStatistics)
    # What its source begins with would say nothing about now.
    assert report.missing == {"b": "nothing has come since the site was started"}


def test_a_stream_in_which_nothing_comes_any_more_is_measured_with_the_time_without_tuples() -> None:
    sites = cluster()
    sites.issue("cam")
    sites.settle_mail()
    sites.arrive("l", 0, 10, 20)
    sites.arrive("l", 20_000)
    sites.settle_mail()
    stream = sites.sites["ash"].streams["l"]
    batches, span_us = stream.recent_past(1_000_000)
    assert len(batches) == 1
    assert span_us is not None
    assert span_us > 10_000_000


def test_counts_travel() -> None:
    spec = copy_of(parse_query(QUERY, cluster().sites["cam"].catalogue), CopyKind.FULL, "a", (), "bow")
    counts = RunningCounts((("bow", 7), ("cam", 2**40)), (("a", 9),), (("a", -5),), (spec,), ("dan",))
    message = Profiles("cam?1", (), counts=counts)
    assert decode_message(encode_message(message)) == message
    asked = AskProfile("cam?1", QUERY, (), "cam-1-1", counts_only=True, past_us=5)
    assert decode_message(encode_message(asked)) == asked
