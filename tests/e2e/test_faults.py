"""Everything around the cluster fails: each time a clear word or a clean recovery, and nothing lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from node.client import DaemonRefusedError
from node.rpc import control_pb2 as pb
from tests.e2e.cases import lasting, steady
from tests.e2e.harness import (
    CARRIED,
    NARROWS,
    PATIENCE_S,
    SM_D1,
    SM_D2,
    SM_S1,
    SM_S2,
    SP_D,
    SP_S,
    TAG,
    Background,
    Daemons,
    Join,
    Said,
    Stream,
    assert_same_rows,
    carried,
    environment,
    eventually,
    free_port,
    issued,
    narrows,
    new_tag,
    no_trace,
    none_left,
    planned,
    tagged,
    write_cluster,
)
from tests.e2e.proxy import behind_proxy
from tests.small_disk import small_disk

SITES = ("alpha", "beta")


def query(config: Path, join: Join, *arguments: str | Path, at: str = "alpha") -> tuple[str | Path, ...]:
    return ("query", "--config", config, "--at", at, join.text, *arguments)


def rows_stored(daemons: Daemons, query_id: str) -> int:
    return daemons.query_info(query_id).rows


def rows_arrive(daemons: Daemons, query_id: str) -> None:
    before = rows_stored(daemons, query_id)
    eventually("rows arrive", lambda: rows_stored(daemons, query_id) > before)


# -- the query command ------------------------------------------------------------------------


def test_killing_the_query_command_and_following_again_gets_every_row_once(tmp_path: Path) -> None:
    """A file is acknowledged when it is whole, so whoever follows next gets everything."""
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        first = Background(*query(config, join, "--out", tmp_path / "half.parquet"), name="first", folder=tmp_path)
        query_id = issued(first)
        eventually("some rows are stored", lambda: rows_stored(daemons, query_id) > 100)
        first.signal(signal.SIGKILL)
        first.process.wait()
        assert not (tmp_path / "half.parquet").exists()
        eventually("the daemon notices", lambda: not daemons.query_info(query_id).followed)
        daemons.hurry()
        out = tmp_path / "rows.parquet"
        narrows("follow", "--config", config, query_id, "--out", out).ok()
        assert_same_rows(pq.read_table(out), join.expected())


def test_killing_a_printing_query_command_leaves_exactly_what_it_had_not_acknowledged(tmp_path: Path) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        first = Background(*query(config, join, "--format", "csv"), name="first", folder=tmp_path)
        query_id = issued(first)
        # Printed rows are acknowledged twice a second.
        eventually("some are acknowledged", lambda: daemons.query_info(query_id).readers[0].taken > 100)
        first.signal(signal.SIGKILL)
        first.process.wait()
        eventually("the daemon notices", lambda: not daemons.query_info(query_id).followed)
        daemons.hurry()
        rest = narrows("follow", "--config", config, query_id, "--format", "csv").ok()
    want = Counter(csv_lines(join.expected()))
    printed, remainder = first.out.splitlines()[1:], Counter(rest.out.splitlines()[1:])
    assert remainder <= want, "the second follower gets nothing strange and nothing twice"
    missing = want - remainder
    assert missing
    assert missing == Counter(printed[: missing.total()]), "what it does not get is what was printed first"


def csv_lines(rows: pa.Table) -> list[str]:
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(rows, sink, pa.csv.WriteOptions(include_header=False))
    return bytes(sink.getvalue()).decode().splitlines()


def test_ctrl_c_detaches_and_the_query_can_be_listed_followed_and_dropped(tmp_path: Path) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        out = tmp_path / "first.parquet"
        first = Background(*query(config, join, "--out", out, at="beta"), name="first", folder=tmp_path)
        query_id = issued(first)
        eventually("some rows are stored", lambda: rows_stored(daemons, query_id) > 50)
        first.signal(signal.SIGINT)
        first.end().failed(130, f"{query_id} goes on", f"narrows follow {query_id}")
        listed = narrows("queries", "--config", config).ok().out
        assert query_id in listed
        assert "running" in listed
        second = Background("follow", "--config", config, query_id, name="second", folder=tmp_path)
        eventually("rows are printed", lambda: len(second.out.splitlines()) > 5)
        third = narrows("follow", "--config", config, query_id)
        third.failed(1, "one follower at a time")
        narrows("drop", "--config", config, query_id).ok()
        second.end().failed(1, query_id, "dropped")
        assert query_id not in narrows("queries", "--config", config).ok().out
        narrows("follow", "--config", config, query_id).failed(2, "unknown query", query_id)
        narrows("drop", "--config", config, "nowhere-1").failed(2, "nowhere-1")
    before = Counter(zip(*pq.read_table(out, columns=["a", "b"]).to_pydict().values(), strict=True))
    after = Counter(
        tuple(map(int, line.split(",")[:2])) for line in second.out.splitlines()[1:] if line.count(",") >= 2
    )
    assert before
    assert after
    assert (before + after) <= Counter(zip(*join.expected().select(["a", "b"]).to_pydict().values(), strict=True))


def test_a_reader_that_closes_standard_output_early_gets_no_complaint(tmp_path: Path) -> None:
    join = steady(4)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*SITES).linked():
        command = [*NARROWS, *planned(*query(config, join, "--format", "csv"))]
        piped = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        assert piped.stdout is not None
        assert piped.stderr is not None
        assert piped.stdout.readline() == b'"a","b","pad"\n'
        piped.stdout.close()
        err = piped.stderr.read().decode()
        piped.stderr.close()
        no_trace(Said(piped.wait(PATIENCE_S), "", err))
        assert "Exception" not in err
        assert "rror" not in err


def moved_on(daemons: Daemons, query_id: str, rows: int) -> bool:
    info = daemons.query_info(query_id)
    return info.rows > rows or info.state != "running"


# -- links ------------------------------------------------------------------------------------


def link(daemons: Daemons, site: str) -> pb.LinkStatus:
    status = daemons.status(site)
    assert status is not None
    return status.links[0]


@pytest.mark.parametrize("algorithms", [(SP_S, SM_S1, SM_S2), (SP_D, SM_D1, SM_D2)], ids=str)
def test_cutting_and_restoring_the_link_in_mid_query_changes_no_row(
    tmp_path: Path, algorithms: tuple[str, ...]
) -> None:
    """Three queries share the link, and with it the compressor that starts anew with each connection."""
    joins = {algorithm: steady(60, 100, suffix=f"_{number}") for number, algorithm in enumerate(algorithms)}
    streams = [stream for join in joins.values() for stream in join.streams]
    with behind_proxy(tmp_path, streams, "--speed", "4") as (daemons, proxy), daemons.client("alpha") as client:
        ids = {algorithm: client.issue(join.text, algorithm).query_id for algorithm, join in joins.items()}
        eventually(
            "all run", lambda: all(daemons.query_info(query_id).state != "preparing" for query_id in ids.values())
        )
        last = ids[algorithms[-1]]
        cuts = 0
        while cuts < 3 and daemons.query_info(last).state == "running":
            before = rows_stored(daemons, last)
            eventually("rows arrive, or all have", lambda before=before: moved_on(daemons, last, before))  # type: ignore[misc]
            proxy.cut()
            eventually("alpha notices", lambda: link(daemons, "alpha").state != "up")
            assert link(daemons, "alpha").trouble
            proxy.restore()
            eventually("the link is up again", lambda: link(daemons, "alpha").state == "up")
            cuts += 1
            assert link(daemons, "alpha").reconnects >= cuts
        assert cuts
        for algorithm, join in joins.items():
            out = tmp_path / f"{algorithm}.parquet"
            narrows("follow", "--config", daemons.config, ids[algorithm], "--out", out).ok()
            assert_same_rows(pq.read_table(out), join.expected())
            if algorithm in (SM_S1, SM_S2):
                assert_shipped_once(daemons, ids[algorithm], join)


def assert_shipped_once(daemons: Daemons, query_id: str, join: Join) -> None:
    """What was sent again over a new connection is no tuple shipped twice."""
    everywhere = [copy for site in SITES if (status := daemons.status(site)) for copy in status.copies]
    tuples = {(copy.alias, copy.role): copy.tuples for copy in everywhere if copy.query_id == query_id}
    for alias, stream in (("l", join.left), ("r", join.right)):
        assert 0 < tuples[alias, "owner"] == tuples[alias, "holder"] <= stream.table.num_rows


def test_a_link_on_which_nothing_passes_any_more_is_dialled_again(tmp_path: Path) -> None:
    join = lasting()
    with behind_proxy(tmp_path, join.streams, "--speed", "1") as (daemons, proxy):
        out = tmp_path / "rows.parquet"
        command = Background(*query(daemons.config, join, "--out", out), name="query", folder=tmp_path)
        query_id = issued(command)
        eventually("rows arrive", lambda: rows_stored(daemons, query_id) > 0)
        proxy.stall()
        eventually("silence is noticed", lambda: "silent" in link(daemons, "alpha").trouble)
        assert link(daemons, "alpha").state != "up"
        proxy.resume()
        eventually("the link is up again", lambda: link(daemons, "alpha").state == "up")
        assert link(daemons, "alpha").reconnects
        rows_arrive(daemons, query_id)
        daemons.hurry()
        command.end().ok()
        assert_same_rows(pq.read_table(out), join.expected())


def test_walks_say_what_a_query_waits_for_while_its_link_is_cut(tmp_path: Path) -> None:
    join = lasting()
    with behind_proxy(tmp_path, join.streams, "--speed", "1") as (daemons, proxy), daemons.client("alpha") as client:
        query_id = client.issue(join.text, SM_D2).query_id
        eventually("rows arrive", lambda: rows_stored(daemons, query_id) > 0)
        proxy.cut()

        def waits() -> list[str]:
            said = narrows("walks", query_id, "--config", daemons.config, "--at", "alpha").ok().out
            return [line for line in said.splitlines() if "beta to say which of" in line and "(answer)" in line]

        assert eventually("a walk waits for the other site", waits)
        assert (
            "no walk of alpha-1-99 is under way" in narrows("walks", "alpha-1-99", "--config", daemons.config).ok().out
        )
        found = json.loads(narrows("walks", "--config", daemons.config, "--json").ok().out)["sites"]["alpha"]["walks"]
        assert {walk["query_id"] for walk in found} == {query_id}
        assert {walk["algorithm"] for walk in found} == {SM_D2}
        assert any(walk["stage"] == "answer" and walk["rows"] >= walk["keys"] > 0 for walk in found)
        proxy.restore()
        rows_arrive(daemons, query_id)
        daemons.hurry()
        out = tmp_path / "rows.parquet"
        narrows("follow", "--config", daemons.config, query_id, "--out", out).ok()
        assert_same_rows(pq.read_table(out), join.expected())
        assert "no walk is under way at alpha, beta" in narrows("walks", "--config", daemons.config).ok().out


def test_a_slow_link_delivers_the_same_rows(tmp_path: Path) -> None:
    join = steady(3)
    with behind_proxy(tmp_path, join.streams) as (daemons, proxy):
        proxy.delay_s = 0.15
        eventually("the delay is measured", lambda: link(daemons, "alpha").rtt_us > 250_000)
        out = tmp_path / "rows.parquet"
        narrows(*query(daemons.config, join, "--out", out)).ok()
        assert_same_rows(pq.read_table(out), join.expected())


#: Algorithm, tuples a second, speed, bytes of noise in a tuple, how far the sum may be off. Few large messages; many
#: small ones; and tiny ones, answered at once, where a fifth of all bytes are updates of gRPC's flow control, which
#: it sends as it likes: measured on a busy machine, we counted up to 2.6 percent too little.
ON_THE_WIRE = [
    (SP_S, 5_000, None, 0, 0.02),
    (SM_S2, 200, "4", 50, 0.02),
    (SM_S2, 200, "4", 0, 0.04),
]


@pytest.mark.parametrize(("algorithm", "rows_per_second", "speed", "noise_bytes", "off_max"), ON_THE_WIRE)
def test_the_bytes_we_count_are_the_bytes_on_the_wire(
    tmp_path: Path, algorithm: str, rows_per_second: int, speed: str | None, noise_bytes: int, off_max: float
) -> None:
    join = steady(20, rows_per_second, noise_bytes=noise_bytes)
    with behind_proxy(tmp_path, join.streams, *(("--speed", speed) if speed else ())) as (daemons, proxy):
        narrows(*query(daemons.config, join, "--algorithm", algorithm, "--out", tmp_path / "rows.parquet")).ok()
        eventually("all is acknowledged", lambda: not any(link(daemons, site).backlog_bytes for site in SITES))
        by_kind = {site: dict(link(daemons, site).sent_bytes) for site in SITES}
        wire = {"alpha": proxy.sent, "beta": proxy.received}
    for site in SITES:
        assert wire[site] > 15_000
        assert abs(sum(by_kind[site].values()) - wire[site]) < off_max * wire[site], (by_kind, wire)
        assert carried(by_kind[site]) == CARRIED[algorithm]


def test_peers_of_another_cluster_or_another_tau_are_refused_with_the_reason(tmp_path: Path) -> None:
    join = steady(1)
    sites = ("alpha", "beta", "gamma")
    ports = {site: free_port() for site in sites}
    config = write_cluster(tmp_path, join.streams, sites=sites, ports=ports)
    other_tau = write_cluster(tmp_path, join.streams, sites=sites, ports=ports, tau="200ms", file="tau.toml")
    other_name = write_cluster(tmp_path, join.streams, sites=sites, ports=ports, cluster="else", file="name.toml")
    with (
        Daemons(config).start("alpha"),
        Daemons(config, other_tau).start("beta"),
        Daemons(config, other_name).start("gamma"),
    ):

        def shown() -> str | None:
            out = narrows("status", "--config", config).ok().out
            return out if "requires tau in ms" in out and "requires cluster" in out else None

        text = eventually("both refusals are shown", shown) or ""
        assert "refused" in text
        assert "'else'" in text
        narrows(*query(config, join)).failed(1, "beta cannot be reached", "tau in ms")


# -- daemons ----------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [("alpha",), ("beta",), SITES], ids=["home", "the other", "both"])
@pytest.mark.parametrize("algorithm", ["SP-S", "SM-S1", "l=SM-D1,r=SM-S2"])
def test_daemons_that_are_killed_in_mid_query_and_started_again_change_no_row(
    tmp_path: Path, algorithm: str, killed: tuple[str, ...]
) -> None:
    """Twice, so that what goes on after a crash dies too. Nobody has to do anything."""
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    out = tmp_path / "rows.parquet"
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        chosen = ("--algorithm", algorithm, "--out", out)
        command = Background(*query(config, join, *chosen), name="query", folder=tmp_path)
        query_id = issued(command)
        for _ in range(2):
            rows_arrive(daemons, query_id)
            for site in killed:
                daemons.nodes[site].signal(signal.SIGKILL)
                daemons.nodes[site].process.wait()
            daemons.start(*killed)
        rows_arrive(daemons, query_id)
        daemons.hurry()
        command.end().ok()
    assert_same_rows(pq.read_table(out), join.expected())


def test_a_site_that_is_not_there_is_named_by_status_queries_and_query(tmp_path: Path) -> None:
    join = steady(1)
    config = write_cluster(tmp_path, join.streams)
    narrows("status", "--config", config).failed(1)
    narrows(*query(config, join)).failed(1, "alpha", "nobody answers")
    with Daemons(config).start("alpha") as daemons:
        status = narrows("status", "--config", config).ok()
        assert "running" in status.out
        assert "site beta does not answer (requires a running daemon" in status.out
        assert "beta" in narrows("queries", "--config", config).ok().err
        narrows(*query(config, join)).failed(1, "site beta cannot be reached")
        daemons.nodes["alpha"].signal(signal.SIGTERM)
        assert daemons.nodes["alpha"].end().code == 0
    assert not list((tmp_path / "tmp").glob("narrows-alpha-*")), "a daemon that stops takes its files with it"


def test_a_port_in_use_is_named_and_nothing_is_left_running(tmp_path: Path) -> None:
    join = steady(1)
    config = write_cluster(tmp_path, join.streams, ports={"alpha": (taken := free_port()), "beta": free_port()})
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        other.listen()
        words = ("site.alpha.listen", str(taken), "in use")
        narrows("node", "--config", config, "--site", "alpha").failed(1, *words)
        narrows("run", config, "--query", join.text).failed(1, *words)
    assert not tagged(os.environ[TAG])


# -- logs -------------------------------------------------------------------------------------


def test_a_daemon_logs_its_streams_and_the_next_one_says_where_they_go_on(tmp_path: Path) -> None:
    join = steady(1)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*SITES).linked() as daemons:
        out = tmp_path / "rows.parquet"
        narrows(*query(config, join, "--out", out)).ok()
        assert_same_rows(pq.read_table(out), join.expected())
        assert "goes on" not in daemons.nodes["alpha"].err
        logged = tmp_path / "state" / "alpha" / join.left.name / "log"
        assert sum(file.stat().st_size for file in logged.iterdir())
        # Another port, and so another daemon in all but its site.
        others = write_cluster(tmp_path, join.streams, file="others.toml")
        said = narrows("node", "--config", others, "--site", "alpha")
        said.failed(1, "a state_dir that no other daemon uses", str(daemons.nodes["alpha"].process.pid))
        daemons.nodes["alpha"].kill()
        daemons.start("alpha").linked()
        assert f"stream {join.left.name} goes on at tick end" in daemons.nodes["alpha"].err


def test_a_run_and_a_daemon_without_a_log_write_none(tmp_path: Path) -> None:
    join = steady(1)
    config = write_cluster(tmp_path, join.streams)
    narrows("run", config, "--query", join.text).ok()
    with Daemons(config, arguments=("--no-log",)).start(*SITES).linked():
        out = tmp_path / "rows.parquet"
        narrows(*query(config, join, "--out", out)).ok()
        assert_same_rows(pq.read_table(out), join.expected())
    assert not (tmp_path / "state").exists()


def test_a_log_that_is_damaged_is_named_and_the_daemon_does_not_start(tmp_path: Path) -> None:
    join = steady(1)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*SITES).linked():
        narrows(*query(config, join, "--out", tmp_path / "rows.parquet")).ok()
    log = tmp_path / "state" / "alpha" / join.left.name / "log"
    (first,) = (file for file in sorted(log.iterdir()) if file.stat().st_size > 1_000)
    bytes_of = bytearray(first.read_bytes())
    bytes_of[200] ^= 0xFF
    first.write_bytes(bytes_of)
    narrows("node", "--config", config, "--site", "alpha").failed(1, str(first))


def test_run_does_not_mistake_another_cluster_on_its_ports_for_its_own(tmp_path: Path) -> None:
    """The query would run there, over what is left of streams that play already."""
    join = steady(1)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*SITES).linked() as daemons, daemons.client("alpha") as alpha:
        narrows("run", config, "--query", join.text).failed(1, "listen", "in use")
        assert not list(alpha.queries())


def test_run_killed_outright_leaves_no_daemon_behind(tmp_path: Path) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    tag = new_tag()
    run = Background("run", config, "--query", join.text, "--speed", "0.1", name="run", folder=tmp_path)
    eventually("daemons are up", lambda: len(tagged(tag)) == 3)
    run.signal(signal.SIGKILL)
    run.process.wait()
    none_left(tag)


@pytest.mark.parametrize("killed", SITES)
def test_run_ends_with_the_name_of_a_daemon_that_is_killed(tmp_path: Path, killed: str) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    out = tmp_path / "rows.parquet"
    arguments = ("run", config, "--query", join.text, "--speed", "1", "--quiet", "--out", out)
    run = Background(*arguments, name="run", folder=tmp_path)
    eventually("rows are written", (tmp_path / "rows.parquet.part").exists)
    daemon = next(pid for pid in tagged(os.environ[TAG]) if f"--site\0{killed}" in command_line(pid))
    os.kill(daemon, signal.SIGKILL)
    run.end().failed(1, f"site {killed} ended")
    assert not list(tmp_path.glob("rows.parquet*"))


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_that_is_told_to_stop_stops_everything_and_leaves_no_half_file(
    tmp_path: Path, number: signal.Signals
) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    out = tmp_path / "rows.parquet"
    run = Background("run", config, "--query", join.text, "--speed", "1", "--out", out, name="run", folder=tmp_path)
    eventually("rows are read", lambda: "tuples read" in run.err)
    run.signal(number)
    assert run.end().code != 0
    none_left(os.environ[TAG])
    assert not list(tmp_path.glob("rows.parquet*"))
    assert not list((tmp_path / "tmp").glob("narrows-*"))


# -- disks ------------------------------------------------------------------------------------


def test_a_full_disk_for_out_is_named_and_the_rows_can_still_be_had(tmp_path: Path) -> None:
    join = steady(30)
    config = write_cluster(tmp_path, join.streams)
    with small_disk(tmp_path / "small", "64k") as small:
        for form in ("parquet", "csv"):
            out = small / f"rows.{form}"
            narrows("run", config, "--query", join.text, "--out", out).failed(1, str(out), "No space left")
            assert not list(small.iterdir()), "no half file stays"
        with Daemons(config).start(*SITES).linked() as daemons:
            said = narrows(*query(config, join, "--out", small / "rows.jsonl"))
            query_id = daemons.query_id("alpha")
            said.failed(1, str(small / "rows.jsonl"), "No space left", f"narrows follow {query_id}")
            out = tmp_path / "rows.parquet"
            narrows("follow", "--config", config, query_id, "--out", out).ok()
    assert_same_rows(pq.read_table(out), join.expected())


def test_a_full_disk_under_the_rows_of_a_run_fails_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = steady(30)
    config = write_cluster(tmp_path, join.streams)
    with small_disk(tmp_path / "small", "64k") as small:
        monkeypatch.setenv("TMPDIR", str(small))
        said = narrows("run", config, "--query", join.text, "--out", tmp_path / "first.parquet")
        said.failed(1, "cannot be kept at alpha", "No space left")


def test_on_a_full_disk_rows_wait_and_go_on_by_themselves_when_there_is_room(tmp_path: Path) -> None:
    join, later = steady(8), steady(1, suffix="_later")
    config = write_cluster(tmp_path, (*join.streams, *later.streams))
    results = tmp_path / "state" / "alpha" / "results"
    results.parent.mkdir(parents=True)
    with small_disk(results, "2m") as small, Daemons(config).start(*SITES).linked() as daemons:
        filler = small / "filler"
        with suppress(OSError), filler.open("wb") as file:
            for _ in range(505):  # all but a few pages
                file.write(bytes(4096))
                file.flush()
        out = tmp_path / "rows.parquet"
        command = Background(*query(config, join, "--out", out), name="query", folder=tmp_path)
        eventually(
            "it is said", lambda: "the result rows have no room at alpha: No space left on device" in command.err
        )
        query_id = issued(command)
        assert daemons.query_info(query_id).state == "running"
        filler.unlink()
        command.end().ok()
        assert_same_rows(pq.read_table(out), join.expected())
        narrows(*query(config, later, "--out", tmp_path / "later.parquet")).ok()
    assert_same_rows(pq.read_table(tmp_path / "later.parquet"), later.expected())


# -- wrong input ------------------------------------------------------------------------------


def test_every_wrong_key_of_the_cluster_file_is_named_with_what_was_required(tmp_path: Path) -> None:
    config = tmp_path / "cluster.toml"
    config.write_text(
        'tau = "fast"\nengine = "flink"\nspeed = 3\n'
        '[site.alpha]\nlisten = "nowhere"\n[site.alpha.stream.left]\npath = "left.txt"\nunit = "h"\n'
    )
    keys = ("tau", "engine", "speed", "site.alpha.listen", "left.path", "left.ts", "left.unit")
    for command in (("run", config, "--query", "SELECT"), ("node", "--config", config, "--site", "alpha")):
        said = narrows(*command).failed(2, str(config), *keys, "required a duration", 'got "fast"')
        assert len(said.err.splitlines()) == len(keys)


def test_streams_whose_files_are_not_as_configured_are_named_before_anything_starts(tmp_path: Path) -> None:
    some = pa.table({"ts": [1], "word": ["one"]})
    streams = (
        Stream("gone", some, "alpha"),
        Stream("column", some, "alpha", ts="time"),
        Stream("kind", some, "beta", ts="word"),
        Stream("unit", some.set_column(0, "ts", pa.array([1], pa.timestamp("us"))), "beta", unit="ms"),
        Stream("broken", some, "beta"),
    )
    config = write_cluster(tmp_path, streams)
    (tmp_path / "gone.parquet").unlink()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is not it PAR1")
    said = narrows("run", config, "--query", "SELECT")
    said.failed(2, "gone.parquet", "no such file", '"time"; the file has "ts", "word"', '"word" of type string')
    said.failed(2, "unit.unit", "broken.parquet", "an intact Parquet file")
    narrows("node", "--config", config, "--site", "alpha").failed(2, "gone.parquet", "no such file")


def test_a_query_that_cannot_run_is_refused_by_run_and_by_a_daemon(tmp_path: Path) -> None:
    join = steady(1)
    config = write_cluster(tmp_path, join.streams)
    text = join.text
    cases = {
        ("unknown stream", '"lfet"', "left"): (text.replace("FROM left", "FROM lfet"),),
        ("unknown column", '"sqe"', "seq"): (text.replace("l.seq", "l.sqe"),),
        ("SP-X", "SP-S, SP-D"): (text, "--algorithm", "SP-X"),
        ("unknown head", '"q"'): (text, "--algorithm", "l=SP-S,q=SP-D"),
        ("policy", "required frontier, delta", '"soon"'): (text, "--policy", "soon"),
        ("policy delta", "duration above 0", '"0ms"'): (text, "--policy", "delta=0ms"),
        ("ROWS", "1"): (text.replace("[RANGE 300 MILLISECONDS]", "[ROWS 0]"),),
    }
    with Daemons(config).start(*SITES).linked() as daemons, daemons.client("alpha") as client:
        for words, (wrong, *rest) in cases.items():
            narrows("run", config, "--query", wrong, *rest).failed(2, *words)
            option = dict(zip(rest[::2], rest[1::2], strict=True))
            with pytest.raises(DaemonRefusedError) as refused:
                client.issue(wrong, option.get("--algorithm", SP_D), option.get("--policy", "frontier"))
            assert all(word in str(refused.value) for word in words)
        narrows("query", "--config", config, "--at", "alpha", "SELECT 1").failed(2, "SELECT 1", "required")
        assert not client.queries()
    narrows("run", config, "--query", text, "--at", "gamma").failed(2, '"gamma"', '"alpha", "beta"')
    narrows("query", "--config", config, "--at", "gamma", text).failed(2, '"gamma"', '"alpha", "beta"')
    unfit = tmp_path / "rows.txt"
    narrows("run", config, "--query", text, "--out", unfit).failed(2, "rows.txt", ".parquet")
    narrows("query", "--config", config, "--at", "alpha", text, "--out", unfit).failed(2, "rows.txt", ".parquet")
    narrows("run", config, "--query", text, "--stats", tmp_path / "no" / "s.json").failed(2, "--stats", "folder")
    narrows("run", config, "--query", text, "--speed", "0").failed(2, "--speed")


def test_a_file_that_breaks_off_in_the_middle_fails_the_query_with_the_reason(tmp_path: Path) -> None:
    """Types of text files are taken from their beginning; a later value that does not fit must not pass for the end."""
    join = steady(1)
    right = Stream("right", join.right.table, "beta", "csv")
    config = write_cluster(tmp_path, (join.left, right))
    with (tmp_path / "right.csv").open("a") as file:
        file.write('199,999,7,"fine"\n' * 600_000 + '200,1000,seven,"not a number"\n')
    out = tmp_path / "rows.parquet"
    said = narrows("run", config, "--query", join.text, "--out", out)
    said.failed(1, "right", "beta", "seven")
    assert not list(tmp_path.glob("rows.parquet*"))


def test_late_tuples_that_cannot_be_written_fail_the_query_instead_of_being_lost(tmp_path: Path) -> None:
    join = steady(1)
    reversed_rows = join.right.table.take(pa.array(range(join.right.table.num_rows - 1, -1, -1)))
    config = write_cluster(tmp_path, (join.left, Stream("right", reversed_rows, "beta")))
    (tmp_path / "a_file").write_text("")
    config.write_text('late_dir = "a_file/late"\n' + config.read_text())
    narrows("run", config, "--query", join.text).failed(1, "stream right at beta", "late tuples", "late_dir")
