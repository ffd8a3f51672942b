"""Every link of a cluster through a proxy of a Toxiproxy server, with latency and bandwidth in both directions.

Toxiproxy limits the bandwidth of a connection, not of a proxy. That is one reason why a link is one connection; a
test says so. A proxy is named after its link, the site that dials first.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from requests import RequestException
from toxiproxy import Proxy, Toxiproxy
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from netsim import loopback
from netsim.loopback import get, is_mark, quiet_port
from netsim.profiles import BYTES_PER_S_STEP, Shape, Wan
from planner.model.errors import NarrowsError

#: Toxiproxy's words for the two ways of a connection: from who dialled, and back.
_UP, _DOWN = "upstream", "downstream"
#: Not in names of sites, and as it is in an address of the web.
_BETWEEN = "~"
#: Toxics are named after what they do. The names of these two end with the time since when.
_CUT, _REFUSED = "cut", "refused"
_PORT_TRIES = 20
_SETTLED_S, _SETTLED_S_MAX = 0.1, 3.0


class WanError(NarrowsError):
    """The emulated network cannot do what was asked."""


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of a link, as it is now."""

    source: str
    target: str
    shape: Shape
    #: Since when nothing passes, in seconds of the clock; None: it passes.
    cut_at: float | None
    #: Connections of the link are refused, not only silent.
    refused: bool
    #: Of connections that have ended.
    nbytes: int

    @property
    def cut(self) -> bool:
        """Whether nothing passes."""
        return self.refused or self.cut_at is not None


class Proxies:
    """The links' proxies at one server."""

    def __init__(self, port: int) -> None:
        """``port``: of the server's API, on loopback."""
        self._port = port
        self._server = Toxiproxy()

    def is_there(self) -> bool:
        """Whether the server still listens."""
        return loopback.answers(self._port)

    def create(self, addresses: Mapping[str, str], wan: Wan, earlier: Mapping[str, str]) -> dict[str, str]:
        """A proxy for each pair of sites; for each link where the site that dials has to dial instead.

        That is where it was ``earlier``, if it can be had: daemons that dial there find their link again.
        """
        listens = {}
        for dials, answers in itertools.combinations(sorted(addresses), 2):
            name = link_name(dials, answers)
            listens[name] = self._create(name, addresses[answers], earlier.get(name))
            for source, target in ((dials, answers), (answers, dials)):
                self.shape(source, target, wan.shape(source, target))
        return listens

    def shape(self, source: str, target: str, shape: Shape) -> None:
        """Let one direction of a link be like this from now on; connections stay."""
        latency = {"latency": shape.latency_ms, "jitter": shape.jitter_ms}
        rate = 0 if shape.bytes_per_s is None else max(1, round(shape.bytes_per_s / BYTES_PER_S_STEP))
        with self._asking(source, target) as (proxy, stream):
            _put(proxy, stream, "latency", latency if shape.latency_ms or shape.jitter_ms else None)
            _put(proxy, stream, "bandwidth", {"rate": rate} if rate else None)

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass in one direction any more, without a word to either end."""
        with self._asking(source, target) as (proxy, stream):
            if not _since(proxy, stream, _CUT):
                attributes = {"timeout": 0}
                proxy.add_toxic(name=_now(_CUT, stream), type="timeout", stream=stream, attributes=attributes)

    def heal(self, source: str, target: str) -> None:
        """Let it pass again. What was sent meanwhile is lost, so the connection is broken."""
        with self._asking(source, target) as (proxy, stream):
            _remove(proxy, stream, _CUT)

    def drop(self, one: str, other: str) -> None:
        """Close the link's connection and refuse new ones."""
        with self._asking(*sorted((one, other))) as (proxy, stream):
            proxy.disable()
            if not _since(proxy, stream, _REFUSED):
                # Does nothing; its name says since when.
                proxy.add_toxic(name=_now(_REFUSED, stream), type="latency", stream=stream, attributes={"latency": 0})

    def restore(self, one: str, other: str) -> None:
        """Take connections of the link again."""
        with self._asking(*sorted((one, other))) as (proxy, stream):
            _remove(proxy, stream, _REFUSED)
            proxy.enable()
            if not self._proxy(one, other).enabled:
                raise WanError(
                    f"the link between {one} and {other} requires {proxy.listen} again; somebody took it meanwhile: "
                    "heal again when it is free, or take the network down and up and start the daemons anew"
                )

    def ways(self) -> list[Way]:
        """Both directions of every link, in order."""
        counted = self.counters()
        ways = []
        with _translated(), self._aimed():
            found = {name: proxy for name, proxy in self._server.proxies().items() if not is_mark(name)}
            for name, proxy in sorted(found.items()):
                dials, answers = name.split(_BETWEEN)
                toxics = proxy.toxics()
                refused = next((_time_in(toxic) for toxic in toxics if toxic.startswith(_REFUSED)), None)
                for source, target, stream in ((dials, answers, _UP), (answers, dials, _DOWN)):
                    own = {toxic.name: toxic.attributes for toxic in toxics.values() if toxic.stream == stream}
                    cut = next((_time_in(toxic) for toxic in own if toxic.startswith(_CUT)), None)
                    since = min((time for time in (cut, refused) if time is not None), default=None)
                    nbytes = counted.get((source, target), 0)
                    ways.append(Way(source, target, _shape(own, stream), since, not proxy.enabled, nbytes))
        return ways

    def counters(self) -> dict[tuple[str, str], int]:
        """Bytes that passed from one site to another, by the proxy's own count, of connections that have ended."""
        with _translated():
            return received(get(self._port, "/metrics").decode().splitlines())

    def settled_counters(self) -> dict[tuple[str, str], int]:
        """The counters once they stand still: after its two ends, a connection ends in the proxy a little later."""
        deadline, counted = time.monotonic() + _SETTLED_S_MAX, self.counters()
        while time.monotonic() < deadline:
            time.sleep(_SETTLED_S)
            before, counted = counted, self.counters()
            if counted == before and counted:
                break
        return counted

    @contextlib.contextmanager
    def _asking(self, source: str, target: str) -> Iterator[tuple[Proxy, str]]:
        """The proxy of a link, and how it calls the way from one site to the other."""
        with _translated(), self._aimed():
            yield self._proxy(source, target), _UP if source < target else _DOWN

    @contextlib.contextmanager
    def _aimed(self) -> Iterator[None]:
        """The client library keeps its server in one place for all."""
        self._server.update_api_consumer("127.0.0.1", self._port)
        yield

    def _proxy(self, one: str, other: str) -> Proxy:
        proxies = self._server.proxies()
        proxy = proxies.get(link_name(one, other))
        if proxy is None:
            known = ", ".join(name.replace(_BETWEEN, "-") for name in sorted(proxies) if not is_mark(name))
            raise WanError(f"a link between two sites required, one of {known}; got {one} and {other}")
        return proxy

    def _create(self, name: str, upstream: str, earlier: str | None) -> str:
        """A proxy, and where it listens."""
        with _translated(), self._aimed():
            for number in range(_PORT_TRIES):
                listen = earlier if earlier and not number else f"127.0.0.1:{quiet_port()}"
                # The library does not look whether it was created: what it returns has no name then.
                with contextlib.suppress(KeyError):
                    return str(self._server.create(upstream=upstream, name=name, listen=listen).listen)
        raise WanError(f"the link {name.replace(_BETWEEN, '-')} requires a free port of loopback; got none")


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """What goes wrong with the server, as an error of ours."""
    try:
        yield
    except (RequestException, OSError) as error:
        raise WanError(f"the Toxiproxy server required an answer; got {_gist(error)}") from None
    except (InvalidToxic, NotFound, ProxyExists, ValueError, KeyError) as error:
        raise WanError(f"the Toxiproxy server did not take what it was told: {error}") from None


def _gist(error: Exception) -> str:
    return "none" if "refused" in str(error) or "reset" in str(error) else str(error) or type(error).__name__


def _put(proxy: Proxy, stream: str, kind: str, attributes: Mapping[str, int] | None) -> None:
    """Add, change or remove a toxic of one direction."""
    name = f"{kind}_{stream}"
    there = proxy.get_toxic(name) is not None
    if attributes is None:
        if there:
            proxy.destroy_toxic(name)
    elif there:
        APIConsumer.post(f"/proxies/{proxy.name}/toxics/{name}", json={"attributes": dict(attributes)})
    else:
        proxy.add_toxic(name=name, type=kind, stream=stream, attributes=dict(attributes))


def _now(what: str, stream: str) -> str:
    return f"{what}_{stream}_{time.time():.0f}"


def _since(proxy: Proxy, stream: str, what: str) -> list[str]:
    """The toxics of one direction that say since when it is cut."""
    return [name for name in proxy.toxics() if name.startswith(f"{what}_{stream}_")]


def _remove(proxy: Proxy, stream: str, what: str) -> None:
    for name in _since(proxy, stream, what):
        proxy.destroy_toxic(name)


def _time_in(name: str) -> float:
    return float(name.rpartition("_")[2])


def link_name(one: str, other: str) -> str:
    """Of the proxy of a link; the site whose name sorts first dials."""
    return _BETWEEN.join(sorted((one, other)))


def _shape(toxics: Mapping[str, Mapping[str, Any]], stream: str) -> Shape:
    latency, bandwidth = toxics.get(f"latency_{stream}", {}), toxics.get(f"bandwidth_{stream}", {})
    rate = bandwidth.get("rate")
    return Shape(latency.get("latency", 0), latency.get("jitter", 0), None if rate is None else rate * BYTES_PER_S_STEP)


def received(lines: Iterable[str]) -> dict[tuple[str, str], int]:
    """What the proxies received, from lines of Prometheus such as name{direction="upstream",...,proxy="a~b"} 12."""
    counted: dict[tuple[str, str], int] = {}
    for line in lines:
        if line.startswith("toxiproxy_proxy_received_bytes_total{"):
            labels, value = line.split("{", 1)[1].rsplit("} ", 1)
            found = dict(label.split("=", 1) for label in labels.split(","))
            dials, answers = found["proxy"].strip('"').split(_BETWEEN)
            way = (dials, answers) if found["direction"].strip('"') == _UP else (answers, dials)
            # The label says where the proxy listens too: one that moved has two lines.
            counted[way] = counted.get(way, 0) + round(float(value))
    return counted
