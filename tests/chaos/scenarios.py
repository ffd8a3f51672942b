"""What can happen to a network and its machines while a query runs, as a list of moments."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from netsim.profiles import Shape
from netsim.proxies import Proxies
from tests.e2e.harness import Background, Daemons

KBIT_64 = 64_000 / 8
CALM = Shape(20, 2, 250_000.0)


@dataclass(frozen=True)
class Stage:
    """What a scenario can reach."""

    proxies: Proxies
    daemons: Daemons
    #: The command that follows the query's rows.
    reader: Background


Action = Callable[[Stage], None]


@dataclass(frozen=True)
class Scenario:
    """Actions by the second at which they happen, and what ``narrows status`` must say meanwhile, if anything."""

    name: str
    moments: tuple[tuple[float, Action], ...]
    #: From when on, and which words.
    said: tuple[float, str] | None = None


def shaped(source: str, target: str, shape: Shape) -> Action:
    """One link, both ways."""

    def act(stage: Stage) -> None:
        stage.proxies.shape(source, target, shape)
        stage.proxies.shape(target, source, shape)

    return act


def silenced(source: str, target: str) -> Action:
    return lambda stage: stage.proxies.cut(source, target)


def heard(source: str, target: str) -> Action:
    return lambda stage: stage.proxies.heal(source, target)


def refused(one: str, other: str) -> Action:
    return lambda stage: stage.proxies.drop(one, other)


def taken(one: str, other: str) -> Action:
    return lambda stage: stage.proxies.restore(one, other)


def frozen(site: str) -> Action:
    """A machine that hangs: its source stalls, its links fall silent, its connections stay."""
    return lambda stage: stage.daemons.nodes[site].signal(signal.SIGSTOP)


def thawed(site: str) -> Action:
    return lambda stage: stage.daemons.nodes[site].signal(signal.SIGCONT)


def reader_stops(stage: Stage) -> None:
    stage.reader.signal(signal.SIGSTOP)


def reader_goes_on(stage: Stage) -> None:
    stage.reader.signal(signal.SIGCONT)


def flapping(one: str, other: str, times: int, every_s: float) -> tuple[tuple[float, Action], ...]:
    """A link that goes down and comes back again and again."""
    moments: list[tuple[float, Action]] = []
    for number in range(times):
        moments.append((1 + number * every_s, refused(one, other)))
        moments.append((1 + (number + 0.5) * every_s, taken(one, other)))
    return tuple(moments)


#: Windows of the query are one and two seconds long.
SCENARIOS = (
    Scenario(
        "latency jumps beyond delta and back",
        ((1, shaped("alpha", "beta", Shape(800, 100, None))), (4, shaped("alpha", "beta", CALM))),
    ),
    Scenario(
        "bandwidth collapses to 64 kbit/s",
        ((1, shaped("alpha", "beta", Shape(20, 0, KBIT_64))), (6, shaped("alpha", "beta", CALM))),
    ),
    Scenario("a cut shorter than the window", ((1.5, refused("alpha", "beta")), (2.2, taken("alpha", "beta")))),
    Scenario(
        "a cut longer than the window",
        ((1.5, refused("alpha", "beta")), (7, taken("alpha", "beta"))),
        said=(3, "down"),
    ),
    Scenario("a cut in one direction", ((1.5, silenced("alpha", "beta")), (6, heard("alpha", "beta")))),
    Scenario("a flapping link", flapping("beta", "gamma", 6, 1.0)),
    Scenario("a slow reader", ((1.5, reader_stops), (6, reader_goes_on))),
    Scenario("a machine that hangs", ((1.5, frozen("beta")), (6, thawed("beta")))),
)
