"""What a person is told: each trouble has its line, in order of weight; what is normal has none."""

from __future__ import annotations

from typing import Any

from cli.show.diagnosis import diagnosis
from node.core.status import LOGS_FULL
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.rpc import control_pb2 as pb

TAU_MS = 100


def link(peer: str, state: str = "up", **fields: Any) -> pb.LinkStatus:
    return pb.LinkStatus(peer=peer, state=state, **{"rtt_us": 40_000, "rtt_us_least": 40_000, **fields})


def stream(name: str, state: str = "reading", **fields: Any) -> pb.StreamStatus:
    return pb.StreamStatus(name=name, state=state, **{"frontier": 30, "rows": 1_000, "rows_per_second": 150, **fields})


def query(query_id: str = "gamma-1", state: str = "running", **fields: Any) -> pb.QueryBrief:
    usual = {"streams": ["orders", "payments"], "sites": ["alpha", "beta", "gamma"], "followed": True}
    links = ["alpha-beta", "alpha-gamma", "beta-gamma"]
    return pb.QueryBrief(query_id=query_id, state=state, **{**usual, "links": links, **fields})


def site(name: str, **fields: Any) -> pb.StatusReply:
    return pb.StatusReply(site=name, **fields)


def cluster(**changed: pb.StatusReply | str) -> dict[str, pb.StatusReply | str]:
    """Three sites that are well, but for what is changed."""
    well: dict[str, pb.StatusReply | str] = {
        "alpha": site("alpha", links=[link("beta"), link("gamma")], streams=[stream("orders")]),
        "beta": site("beta", links=[link("alpha"), link("gamma")], streams=[stream("payments")]),
        "gamma": site("gamma", links=[link("alpha"), link("beta")], queries=[query()]),
    }
    return well | changed


def said(**changed: pb.StatusReply | str) -> list[str]:
    return diagnosis(cluster(**changed), TAU_MS)


def alpha(*links: pb.LinkStatus, **fields: Any) -> pb.StatusReply:
    return site("alpha", **{"links": links or [link("beta"), link("gamma")], "streams": [stream("orders")], **fields})


def gamma(*queries: pb.QueryBrief, **fields: Any) -> pb.StatusReply:
    return site("gamma", **{"links": [link("alpha"), link("beta")], "queries": queries, **fields})


def test_all_is_well_is_one_line() -> None:
    assert said() == ["all is well: 3 sites, 3 links up, 1 query running, 300 tuples a second"]


def test_streams_that_nobody_reads_or_that_have_ended_are_no_trouble() -> None:
    held = alpha(streams=[stream("orders", "held", still_seconds=900.0, rows_per_second=0)])
    ended = site("beta", streams=[stream("payments", "ended", frontier=TICK_END, still_seconds=900.0)])
    (line,) = diagnosis({"alpha": held, "beta": ended}, TAU_MS)
    assert line == "all is well: 2 sites, 2 links up, no query runs, 1 stream ended"


def test_a_link_that_is_down_is_said_once_by_the_end_that_dials_with_what_waits() -> None:
    here = link("beta", "down", state_seconds=12.2, trouble="cannot reach b:1: nobody answers", backlog_bytes=1_000_000)
    there = link("alpha", "down", state_seconds=11.8, trouble="connection lost", backlog_bytes=200_000)
    beta = site("beta", links=[there, link("gamma")], streams=[stream("payments")])
    assert said(alpha=alpha(here, link("gamma")), beta=beta) == [
        (
            "link alpha-beta is down for 12 s (cannot reach b:1: nobody answers): query gamma-1 waits, "
            "nothing is lost; 1.2 MB will be sent when it is back"
        )
    ]


def test_only_queries_whose_plan_uses_a_link_wait_for_it() -> None:
    down = link("beta", "down", state_seconds=130.0, trouble="connection lost")
    two = (query("gamma-1"), query("gamma-2", links=["alpha-gamma", "beta-gamma"]), query("gamma-3"))
    (line,) = said(alpha=alpha(down, link("gamma")), gamma=gamma(*two))
    assert "down for 2 min" in line
    assert "queries gamma-1, gamma-3 wait, nothing is lost" in line


def test_a_site_that_does_not_answer_explains_its_links() -> None:
    silent = link("beta", silent_seconds=8.0)
    lines = said(beta="site beta requires a running daemon at h:1; nobody answers", alpha=alpha(silent, link("gamma")))
    assert lines == [
        (
            "site beta does not answer (requires a running daemon at h:1; nobody answers); "
            "alpha has not heard it for 8 s; gamma heard it 0 s ago: query gamma-1 waits, and goes on when it is back"
        )
    ]


def test_silence_lost_connections_saturation_and_distance_of_links() -> None:
    (line,) = said(alpha=alpha(link("beta", silent_seconds=7.0), link("gamma")))
    assert line.startswith("link alpha-beta is silent: alpha has heard nothing from beta for 7 s; it is given up")
    (line,) = said(alpha=alpha(link("beta", reconnects_lately=5), link("gamma")))
    assert "link alpha-beta is unsteady: it was lost 5 times in the last minute, and is up now" in line
    slow = link("beta", behind_seconds=9.0, backlog_bytes=900_000, delivered_per_s=8_000.0)
    (line,) = said(alpha=alpha(slow, link("gamma")))
    assert "link alpha-beta is saturated from alpha to beta: 900.0 kB wait, the oldest for 9 s" in line
    assert "at the 8.0 kB/s of the last seconds that takes 112 s" in line
    other = link("alpha", behind_seconds=10.0, backlog_bytes=9_000)
    assert said(alpha=alpha(slow, link("gamma")), beta=site("beta", links=[other])) == [line]
    (line,) = said(alpha=alpha(link("beta", behind_seconds=9.0, backlog_bytes=9), link("gamma")))
    assert "none of it was acknowledged" in line
    (line,) = said(alpha=alpha(link("beta", rtt_us=1_640_000), link("gamma")))
    assert (
        "link alpha-beta is slow: a round trip takes 1,640 ms, at best it was 40 ms: rows of gamma-1 come later" in line
    )


def test_what_a_link_does_now_is_not_hidden_by_what_it_did_lately() -> None:
    slow = link("beta", behind_seconds=9.0, backlog_bytes=900_000, delivered_per_s=8_000.0, reconnects_lately=3)
    (line,) = said(alpha=alpha(slow, link("gamma")))
    assert "is saturated from alpha to beta, lost 3 times in the last minute: 900.0 kB wait" in line
    (line,) = said(alpha=alpha(link("beta", rtt_us=1_640_000, reconnects_lately=4), link("gamma")))
    assert "link alpha-beta is slow, lost 4 times in the last minute: a round trip takes 1,640 ms" in line


def test_what_links_do_all_the_time_is_not_said() -> None:
    busy = link(
        "beta", behind_seconds=3.0, backlog_bytes=10**7, silent_seconds=4.5, reconnects_lately=1, rtt_us=300_000
    )
    assert said(alpha=alpha(busy, link("gamma")))[0].startswith("all is well")
    assert said(alpha=alpha(link("beta"), pb.LinkStatus(peer="gamma", state="up")))[0].startswith("all is well")


def test_a_stalled_source_is_named_with_the_queries_that_wait_for_it() -> None:
    stalled = stream("orders", idle_seconds=14.0, still_seconds=13.0, frontier=17_000_000_000)
    (line,) = said(alpha=alpha(streams=[stalled]))
    assert line.startswith("stream orders at alpha is stalled: no tuple for 14 s, its event time stands at 2023-")
    assert "query gamma-1 waits for it, nothing is lost" in line
    new = stream("orders", idle_seconds=5.0, still_seconds=5.0, frontier=TICK_MIN)
    assert "it has not begun" in said(alpha=alpha(streams=[new]))[0]
    stuck = stream("orders", idle_seconds=0.5, still_seconds=9.0)
    assert "orders at alpha gives tuples, but no later ones for 9 s: its event" in said(alpha=alpha(streams=[stuck]))[0]


def test_a_quiet_source_whose_time_goes_on_and_one_that_nobody_waits_for_are_not_stalled() -> None:
    quiet = stream("orders", idle_seconds=60.0, still_seconds=0.2)
    assert said(alpha=alpha(streams=[quiet]))[0].startswith("all is well")
    other = stream("refunds", idle_seconds=60.0, still_seconds=60.0)
    assert said(alpha=alpha(streams=[other]))[0].startswith("all is well")


def test_readers_that_are_slow_stopped_or_not_there() -> None:
    waits: dict[str, Any] = {"unread_rows": 12_345, "unread_bytes": 3_000_000, "unread_seconds": 21.0}
    (line,) = said(gamma=gamma(query(**waits, read_per_s=40.0)))
    assert line == (
        "query gamma-1: 12,345 rows (3.0 MB) wait at gamma, on disk, the oldest for 21 s; "
        "its reader is slow: it took 40 rows a second lately"
    )
    assert "its reader is connected and takes none" in said(gamma=gamma(query(**waits)))[0]
    (line,) = said(gamma=gamma(query(**waits, followed=False, full=True)))
    assert "nobody follows it: narrows follow gamma-1 takes them; so many that streams are not read on" in line


def test_logs_at_their_quota_say_for_whom_they_are_kept_and_what_to_do() -> None:
    paused = stream("orders", "paused", reason=LOGS_FULL, state_seconds=60.0, still_seconds=60.0)
    kept = pb.KeptLog(query_id="delta-1", home="delta", stream="orders", since=600, bytes=900)
    full: dict[str, Any] = {"streams": [paused], "log_bytes": 1_000, "log_quota_bytes": 1_000}
    (line,) = said(alpha=alpha(**full, kept=[kept]))
    assert line == (
        "the logs of alpha have reached log_quota (they hold 1.0 kB of 1.0 kB): orders is not read on; 900 B since "
        "1970-01-01 00:01:00.000 are kept for query delta-1 of home delta, which waits for delta: bring delta back, or "
        "narrows drop delta-1 --at alpha"
    )
    # Of a query that runs: it is itself too large; over all its streams.
    runs = [
        pb.KeptLog(query_id="gamma-1", home="gamma", stream=name, since=since, bytes=400, runs=True)
        for name, since in (("orders", 700), ("refunds", 600))
    ]
    (line,) = said(alpha=alpha(**full, kept=runs))
    assert line.endswith(
        "; 800 B since 1970-01-01 00:01:00.000 are kept for query gamma-1 of home gamma, which runs: raise log_quota "
        "and restart alpha, or narrows drop gamma-1"
    )
    # Its home is silent, and nobody has noticed at the other sites.
    lines = said(alpha=alpha(**full, kept=runs), gamma="site gamma requires a running daemon")
    assert any(line.endswith("bring gamma back, or narrows drop gamma-1 --at alpha") for line in lines)
    many = [pb.KeptLog(query_id=f"delta-{n}", home="delta", stream="orders", bytes=n) for n in range(5)]
    (line,) = said(alpha=alpha(**full, kept=many))
    assert [f"query delta-{n}" in line for n in range(5)] == [False, False, True, True, True]
    assert line.endswith("; 2 queries more need less")


def test_logs_below_their_quota_are_no_trouble() -> None:
    kept = pb.KeptLog(query_id="delta-1", home="delta", stream="orders", bytes=900)
    assert said(alpha=alpha(log_bytes=999, log_quota_bytes=1_000, kept=[kept])) == said()


def test_of_several_readers_the_one_that_lags_is_named() -> None:
    waits: dict[str, Any] = {"unread_rows": 9, "unread_bytes": 90, "unread_seconds": 21.0}
    quick = pb.ReaderStatus(name="default", attached=True)
    slow = pb.ReaderStatus(name="billing", lag_rows=9)
    trouble = "results_quota is 90; 90 of them are for reader billing of gamma-1"
    (line,) = said(gamma=gamma(query(**waits, readers=[quick, slow], full=True, trouble=trouble)))
    assert "nobody follows it as billing: narrows follow gamma-1 --as billing takes them; so many that streams" in line
    assert line.endswith(f"({trouble})")
    slow.attached = True
    assert "its reader billing is connected and takes none" in said(gamma=gamma(query(**waits, readers=[slow])))[0]
    file = pb.ReaderStatus(name="file", lag_rows=9, file="/rows.csv", trouble="disk full")
    assert "they are not yet in /rows.csv (disk full)" in said(gamma=gamma(query(**waits, readers=[file])))[0]
    left = query(state="completed", unread_rows=1, followed=False, readers=[quick, slow])
    assert "that billing has not taken" in said(gamma=gamma(ended=[left]))[0]


def test_rows_that_wait_of_a_query_that_has_ended_and_one_that_failed() -> None:
    left = query(state="completed", unread_rows=1, unread_bytes=100, followed=False)
    failed = query("gamma-2", "failed", state_seconds=30.0, reason="stream orders at alpha: gone")
    lines = said(gamma=gamma(ended=[left, failed]))
    assert lines[0].startswith("query gamma-1 has ended (completed), and 1 row (100 B) wait at gamma that nobody")
    assert lines[1] == "query gamma-2 failed 30 s ago: stream orders at alpha: gone"


def test_streams_that_are_paused_say_for_whom_and_failed_ones_why() -> None:
    paused = stream("orders", "paused", state_seconds=8.0, still_seconds=8.0, full_queries=["gamma-1"])
    (line,) = said(alpha=alpha(streams=[paused]))
    assert "stream orders at alpha is not read on for 8 s: gamma-1 has as much of it under way as is allowed" in line
    failed = stream("orders", "failed", reason="no such file")
    assert said(alpha=alpha(streams=[failed])) == [
        "stream orders at alpha failed: no such file; mend its source and restart alpha"
    ]


def test_streams_that_wait_for_room_on_the_disk_say_so_at_once() -> None:
    paused = stream("orders", "paused", reason="the disk is full: no room")
    assert said(alpha=alpha(streams=[paused])) == [
        "stream orders at alpha is not read on: the disk is full: no room; make room, and it goes on by itself"
    ]


def test_a_home_without_streams_says_that_its_disk_is_full() -> None:
    """Else its links, which fall silent, would be all that is said."""
    assert said(gamma=gamma(query(), disk_trouble="no room")) == [
        "the disk of gamma is full: no room; make room, and it goes on by itself"
    ]


def test_a_query_that_is_not_ready_names_the_sites_that_hold_it_up() -> None:
    (line,) = said(gamma=gamma(query(state="preparing", state_seconds=8.0, waiting_for=["beta"])))
    assert line.startswith("query gamma-1 is being prepared for 8 s: beta did not say yet that it is ready")
    assert "until then orders, payments are held" in line


def test_spark_that_is_started_again_is_said() -> None:
    spark = pb.EngineStatus(name="spark", version="4", restarting_seconds=8.0)
    (line,) = said(alpha=alpha(engine=spark))
    assert line == (
        "Spark at alpha died and is being started again for 8 s: what it joins and reads waits, nothing is lost"
    )


def test_wrong_moments_of_policy_delta_are_added_up_while_the_query_runs() -> None:
    probes = [pb.ProbeStatus(query_id="gamma-1", delta_us=100_000, early=7, late=1)]
    other = [*probes, pb.ProbeStatus(query_id="gamma-0", delta_us=100_000, early=99)]
    lines = diagnosis(cluster(alpha=alpha(probes=probes), gamma=gamma(query(), probes=other)), TAU_MS)
    (line,) = lines
    assert "delta of 100 ms: 14 probes were too early and 2 too late, so rows may be missing" in line


def test_tuples_set_aside_are_a_note_beside_that_all_is_well() -> None:
    lines = said(alpha=alpha(streams=[stream("orders", aside=20)]))
    assert lines[0].startswith("all is well")
    assert lines[1].startswith("note: 20 tuples of stream orders at alpha (2 %) came too late")


def test_the_heaviest_comes_first() -> None:
    waits: dict[str, Any] = {"unread_rows": 5, "unread_seconds": 21.0}
    down = link("beta", "down", state_seconds=3.0)
    still = stream("orders", still_seconds=9.0)
    failed = query("gamma-2", "failed", reason="x")
    lines = said(alpha=alpha(down, link("gamma"), streams=[still]), gamma=gamma(query(**waits), ended=[failed]))
    words = [line.split()[0] for line in lines]
    assert words == ["query", "link", "stream", "query"]
    assert "failed" in lines[0]


def test_a_query_that_recovers_says_since_when_why_and_for_whom_it_waits() -> None:
    recovery = pb.RecoveryStatus(reason="site beta: it was restarted", seconds=4.2)
    waiting = query(state="recovering", waiting_for=["beta"], recovery=recovery)
    assert said(gamma=gamma(waiting)) == [
        "query gamma-1 recovers for 4 s (site beta: it was restarted): it waits for beta; nothing is lost"
    ]


def test_a_query_that_catches_up_says_how_far_it_is() -> None:
    heads = [
        pb.HeadProgress(head="o", begun_tick=100, done_tick=183, goal_tick=200),
        pb.HeadProgress(head="p", begun_tick=90, done_tick=120, goal_tick=TICK_END),
        pb.HeadProgress(head="q", begun_tick=90, done_tick=120, goal_tick=120),
    ]
    recovery = pb.RecoveryStatus(reason="site gamma was restarted", seconds=2.0, heads=heads)
    behind = [
        pb.CatchingUpStatus(stream="orders", what="copy", peer="beta", queries=["gamma-1"], tick=10, goal_tick=20),
        pb.CatchingUpStatus(stream="orders", what="head", queries=["gamma-1"], tick=10, goal_tick=20),
        pb.CatchingUpStatus(stream="orders", what="window", queries=["gamma-1"], tick=20, goal_tick=20),
    ]
    assert said(gamma=gamma(query(recovery=recovery)), alpha=alpha(catching_up=behind)) == [
        (
            "query gamma-1 catches up for 2 s (site gamma was restarted): "
            "o has 83%, event time 1970-01-01 00:00:18.300 of 1970-01-01 00:00:20.000, "
            "p has event time 1970-01-01 00:00:12.000 of end, q is where it was; nothing is lost"
        ),
        (
            "alpha reads the log of orders for the copy that beta has (gamma-1): "
            "event time 1970-01-01 00:00:01.000 of 1970-01-01 00:00:02.000"
        ),
    ]
