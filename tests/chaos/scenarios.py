"""What can happen to a network, its machines, its sources and its readers while queries run.

A scenario begins a trouble and ends it. In between ``narrows status`` must say the words that a person needs.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from netsim.profiles import Shape
from netsim.proxies import Proxies
from tests.chaos.disks import Disks
from tests.chaos.kills import java_below, kill
from tests.chaos.load import Feeder
from tests.chaos.reader import Reader
from tests.chaos.watch import Watch
from tests.e2e.harness import Daemons

KBIT_64 = 64_000 / 8
CALM = Shape(20, 2, 250_000.0)
#: Links: that of the recordings, and that of the live stream's site and the first query's home.
LINK, OTHER_LINK = ("alpha", "beta"), ("beta", "gamma")


@dataclass(frozen=True)
class Stage:
    """What a scenario can reach."""

    proxies: Proxies
    daemons: Daemons
    watch: Watch
    #: Of the first query.
    reader: Reader
    #: Of the live stream, where there is one.
    feeder: Feeder | None = None
    #: What latency has to exceed to be beyond delta, as it was measured; None: it was not.
    delta_ms: int | None = None
    #: Of the sites, where they have small ones.
    disks: Disks | None = None


Action = Callable[[Stage], None]


@dataclass(frozen=True)
class Scenario:
    """A trouble: how it begins and ends, how long it lasts at least, and what status must say meanwhile."""

    name: str
    begin: Action
    end: Action
    lasts_s: float
    #: Nothing: it is over before anybody could notice.
    said: str = ""
    #: Needs the stream that Spark reads.
    live: bool = False
    #: Needs a disk that can be filled.
    disk: bool = False
    #: A link carries nothing meanwhile.
    cuts: bool = False


def _shaped(link: tuple[str, str], shape: Shape) -> Action:
    """One link, both ways."""

    def act(stage: Stage) -> None:
        stage.proxies.shape(link[0], link[1], shape)
        stage.proxies.shape(link[1], link[0], shape)

    return act


def _far(stage: Stage) -> None:
    """Several times beyond delta, one way."""
    latency_ms = max(800, 4 * (stage.delta_ms or 0))
    _shaped(LINK, Shape(latency_ms, latency_ms // 8, None))(stage)


def _thin(stage: Stage) -> None:
    """Whichever link carries most at present."""
    before = stage.watch.sent()
    time.sleep(2)
    stage.watch.fresh()
    _shaped(stage.watch.busiest(since=before), Shape(20, 0, KBIT_64))(stage)


def _all_calm(stage: Stage) -> None:
    for link in (LINK, OTHER_LINK, ("alpha", "gamma")):
        _shaped(link, CALM)(stage)


def _silenced(stage: Stage) -> None:
    stage.proxies.cut(*LINK)


def _heard(stage: Stage) -> None:
    stage.proxies.heal(*LINK)


def _refused(stage: Stage) -> None:
    stage.proxies.drop(*LINK)


def _taken(stage: Stage) -> None:
    stage.proxies.restore(*LINK)


def _flaps(stage: Stage) -> None:
    """A link that goes down and comes back again and again."""
    for _ in range(5):
        stage.proxies.drop(*OTHER_LINK)
        time.sleep(0.6)
        stage.proxies.restore(*OTHER_LINK)
        time.sleep(0.9)


def _steady(stage: Stage) -> None:
    stage.proxies.restore(*OTHER_LINK)


def _frozen(site: str) -> Action:
    """A machine that hangs: its links fall silent, its connections stay."""
    return lambda stage: stage.daemons.nodes[site].signal(signal.SIGSTOP)


def _thawed(site: str) -> Action:
    return lambda stage: stage.daemons.nodes[site].signal(signal.SIGCONT)


def _filled(site: str) -> Action:
    def act(stage: Stage) -> None:
        assert stage.disks is not None
        # Again and again: what the site had reserved, and gives back for its records, is filled too.
        for _ in range(10):
            stage.disks.fill(site)
            time.sleep(0.3)

    return act


def _freed(site: str) -> Action:
    def act(stage: Stage) -> None:
        assert stage.disks is not None
        stage.disks.free(site)

    return act


def _stalled(stage: Stage) -> None:
    assert stage.feeder is not None
    stage.feeder.stall()


def _flows(stage: Stage) -> None:
    assert stage.feeder is not None
    stage.feeder.go_on()


def _spark_killed(stage: Stage) -> None:
    """The JVM below the daemon that reads the live stream."""
    # There may be none: the daemon itself was killed just now. 0 would be all processes of this group.
    if java := java_below(stage.daemons.nodes["beta"].process.pid):
        kill(java)


def _nothing(_: Stage) -> None:
    """It ends by itself."""


#: The longest window of the queries is two seconds long.
SCENARIOS = (
    Scenario("latency beyond delta", _far, _all_calm, 6, "is slow: a round trip takes"),
    Scenario("bandwidth of 64 kbit/s", _thin, _all_calm, 8, "is saturated from"),
    Scenario("a cut shorter than the window", _refused, _taken, 0.7, cuts=True),
    Scenario("a cut longer than the window", _refused, _taken, 5, "link alpha-beta is down for", cuts=True),
    Scenario("a cut in one direction", _silenced, _heard, 5, "link alpha-beta is silent", cuts=True),
    Scenario("a flapping link", _flaps, _steady, 1, "times in the last minute", cuts=True),
    Scenario(
        "a reader that stops",
        lambda stage: stage.reader.stop_reading(),
        lambda stage: stage.reader.go_on(),
        5,
        "its reader is connected and takes none",
    ),
    Scenario(
        "a reader that trickles",
        lambda stage: stage.reader.trickle(),
        lambda stage: stage.reader.hurry(),
        5,
        "its reader is slow",
    ),
    Scenario("a machine that hangs", _frozen("beta"), _thawed("beta"), 5, "site beta does not answer"),
    Scenario(
        "a home that hangs for longer than silence", _frozen("gamma"), _thawed("gamma"), 14, "site gamma does not"
    ),
    Scenario("a full disk where the streams are", _filled("beta"), _freed("beta"), 5, "the disk is full", disk=True),
    Scenario(
        "a full disk where the rows are", _filled("gamma"), _freed("gamma"), 5, "the disk of gamma is full", disk=True
    ),
    Scenario("a source that stalls", _stalled, _flows, 5, "stream live at beta is stalled", live=True),
    Scenario("Spark that dies", _spark_killed, _nothing, 1, "Spark at beta died and is being started again", live=True),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
