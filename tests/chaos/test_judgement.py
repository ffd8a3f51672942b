"""A run that tried nothing does not pass, and what ends a run is told."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.client import DaemonUnreachableError
from node.rpc import control_pb2 as pb
from tests.chaos import __main__ as chaos
from tests.chaos import kills, rig, sustained
from tests.chaos.figures import Figures
from tests.chaos.kills import Killer, kill
from tests.chaos.load import load
from tests.chaos.reader import HomeReader
from tests.chaos.recoveries import JAVA, Recoveries, Recovery, completed
from tests.chaos.rig import Ask, rigged
from tests.chaos.sustained import Sustained
from tests.chaos.switches import SwitchFigures
from tests.e2e.harness import PATIENCE_S


def status(done_tick: int, restarts: int) -> dict[str, pb.StatusReply | str]:
    query = pb.QueryBrief(query_id="q", state="running", done_tick=done_tick, rows=done_tick, sites=["alpha"])
    return {"alpha": pb.StatusReply(queries=[query], engine=pb.EngineStatus(restarts=restarts))}


def test_java_is_back_when_its_site_says_that_it_was_started_again() -> None:
    recoveries = Recoveries({"q": "alpha"})
    recoveries.looked(status(5, 1), 0.5, 0.6)
    recoveries.began(JAVA, "alpha", 1.0, {})
    recoveries.looked(status(6, 1), 2.0, 2.1)
    assert not completed(recoveries.all), "rows that were found before Java died"
    recoveries.looked(status(7, 2), 3.0, 3.1)
    assert [each.on_s for each in completed(recoveries.all)] == [pytest.approx(2.1)]


def test_what_ended_by_itself_before_it_was_killed_does_not_end_killing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert not kill(gone.pid)


def test_that_killing_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "java_below", lambda _: 1 / 0)
    said: list[str] = []
    node = SimpleNamespace(process=SimpleNamespace(pid=0, poll=lambda: None))
    nodes = dict.fromkeys(("alpha", "beta", "gamma"), node)
    daemons, watch = SimpleNamespace(nodes=nodes), SimpleNamespace(clients={}, on_look=None)
    killer = Killer(cast("Any", daemons), cast("Any", watch), Recoveries({}), 0.001, 1, said.append)
    killer.start()
    while not killer.ended:
        time.sleep(0.01)
    killer.stop()
    assert killer.ended == ["killing ended: ZeroDivisionError: division by zero"]
    assert killer.ended[0] in said[0]


def test_a_file_is_whole_when_its_query_has_completed(tmp_path: Path) -> None:
    """Until then all rows may be taken that there are, and its home may be away."""
    taken = [pb.ReaderStatus(name="file", taken=4)]
    replies: list[Any] = [
        pb.QueryInfo(state="running", rows=4, readers=taken),
        DaemonUnreachableError("killed"),
        pb.QueryInfo(state="completed", rows=4, readers=taken),
    ]

    def query_info(_: str) -> pb.QueryInfo:
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return cast("pb.QueryInfo", reply)

    HomeReader(cast("Any", SimpleNamespace(query_info=query_info)), "q", tmp_path).end(PATIENCE_S)
    assert not replies


def test_a_cluster_that_does_not_come_up_leaves_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever of it is up by then."""
    down: list[Path] = []
    monkeypatch.setattr(rig, "server_path", lambda: Path("server"))
    monkeypatch.setattr(rig, "take_down", down.append)

    def too_slow(*words: str | Path) -> None:
        raise subprocess.TimeoutExpired("narrows wan up", 120)

    monkeypatch.setattr(rig, "narrows", too_slow)
    with pytest.raises(subprocess.TimeoutExpired), rigged(tmp_path, load(1, 10), [Ask(load(1, 10).pair)], live=False):
        pass
    assert down == [tmp_path / "cluster.toml"]


def test_the_first_cause_is_told_also_if_processes_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def left(_: str) -> None:
        raise AssertionError("left behind: a server")

    figures = Figures(1, 1, "native", 0).with_wrong(["TimeoutExpired: narrows wan up"])
    monkeypatch.setattr(chaos, "sustained", lambda *_: figures)
    monkeypatch.setattr(chaos, "none_left", left)
    monkeypatch.setattr(chaos, "OUT", tmp_path)
    monkeypatch.setattr(chaos, "ROOT", tmp_path)
    monkeypatch.setattr(chaos, "RESULTS", tmp_path / "chaos.md")
    monkeypatch.setattr("sys.argv", ["chaos", "--seconds", "1"])
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert chaos.main() == 1
    finally:
        signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr()
    assert "FAILED, first because of this: TimeoutExpired: narrows wan up" in said.err
    assert "left behind: a server" in said.out


@pytest.mark.parametrize(
    ("seconds", "engine", "kill_mean_s", "required"),
    [
        (1, "native", 10.0, 1),
        (600, "native", 10.0, 15),
        (600, "native", 40.0, 3),
        (600, "native", 1.0, 15),
        (600, "spark", 180.0, 10),
        (3_600, "spark", 180.0, 10),
        (600, "native", None, 0),
    ],
)
def test_a_run_with_too_few_recoveries_does_not_pass(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    engine: str,
    kill_mean_s: float | None,
    required: int,
) -> None:
    class Rigged:
        followed = ()
        watch = SimpleNamespace(fresh=lambda: None)

        def finish(self, timeout_s: float) -> None:
            """All is well."""

        def __enter__(self) -> Rigged:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(sustained, "rigged", lambda *_, **__: Rigged())
    monkeypatch.setattr(sustained, "load", lambda *_: load(1, 10))
    monkeypatch.setattr(sustained, "_unbounded", lambda _: ())
    monkeypatch.setattr(sustained, "measured", lambda figures, *_: figures)
    wanted = Sustained(seconds, 1, engine, kill_mean_s)

    def judged(done: int) -> tuple[str, ...]:
        def play(_wanted: object, _rig: object, recoveries: Recoveries, *_: object) -> tuple[list[str], SwitchFigures]:
            recoveries.all += [Recovery("daemon beta", "beta", 0.0, {}, on_s=1.0) for _ in range(done)]
            recoveries.all.append(Recovery("daemon beta", "beta", 0.0, {}, on_s=1.0, interrupted=True))
            return [], SwitchFigures()

        monkeypatch.setattr(sustained, "_play_all", play)
        return sustained.sustained(wanted, tmp_path, lambda _: None).wrong

    assert judged(required) == ()
    if required:
        assert judged(required - 1) == (f"recoveries required: {required}; got {required - 1} of {required}",)
