"""Every link of a cluster through a proxy of a Toxiproxy server, with latency and bandwidth in both directions.

Toxiproxy limits the bandwidth of a connection, not of a proxy. That is one reason why a link is one connection; a
test says so. A proxy is named after its link, the site that dials first.
"""

from __future__ import annotations

import itertools
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer

from netsim.profiles import Shape, Wan
from planner.errors import NarrowsError

#: Toxiproxy's words for the two ways of a connection: from who dialled, and back.
_UP, _DOWN = "upstream", "downstream"


class WanError(NarrowsError):
    """The emulated network cannot do what was asked."""


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of a link, as it is now."""

    source: str
    target: str
    shape: Shape
    cut: bool
    nbytes: int


class Proxies:
    """The links' proxies at one server."""

    def __init__(self, port: int) -> None:
        """``port``: of the server's API, on loopback."""
        self._port = port
        self._server = Toxiproxy()

    def create(self, addresses: Mapping[str, str], wan: Wan) -> dict[str, str]:
        """A proxy for each pair of sites; for each link where the site that dials has to dial instead."""
        self._aim()
        listens = {}
        for dials, answers in itertools.combinations(sorted(addresses), 2):
            proxy = self._server.create(upstream=addresses[answers], name=_name(dials, answers))
            listens[_name(dials, answers)] = proxy.listen
            for source, target in ((dials, answers), (answers, dials)):
                self.shape(source, target, wan.shape(source, target))
        return listens

    def shape(self, source: str, target: str, shape: Shape) -> None:
        """Let one direction of a link be like this from now on; connections stay."""
        latency = {"latency": shape.latency_ms, "jitter": shape.jitter_ms}
        # Toxiproxy takes whole kilobytes per second.
        rate = 0 if shape.bytes_per_s is None else max(1, round(shape.bytes_per_s / 1000))
        self._toxic(source, target, "latency", latency if shape.latency_ms or shape.jitter_ms else None)
        self._toxic(source, target, "bandwidth", {"rate": rate} if rate else None)

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass in one direction any more, without a word to either end."""
        self._toxic(source, target, "timeout", {"timeout": 0})

    def heal(self, source: str, target: str) -> None:
        """Let it pass again. What was sent meanwhile is lost, so the connection is broken."""
        self._toxic(source, target, "timeout", None)

    def drop(self, one: str, other: str) -> None:
        """Close the link's connection and refuse new ones."""
        self._enable(one, other, enabled=False)

    def restore(self, one: str, other: str) -> None:
        """Take connections of the link again."""
        self._enable(one, other, enabled=True)

    def ways(self) -> list[Way]:
        """Both directions of every link, in order."""
        self._aim()
        counted = self.counters()
        ways = []
        for name, proxy in sorted(self._server.proxies().items()):
            dials, answers = name.split(_BETWEEN)
            toxics = list(proxy.toxics().values())
            for source, target, stream in ((dials, answers, _UP), (answers, dials, _DOWN)):
                found = {toxic.type: toxic.attributes for toxic in toxics if toxic.stream == stream}
                cut = "timeout" in found or not proxy.enabled
                ways.append(Way(source, target, _shape(found), cut, counted.get((source, target), 0)))
        return ways

    def counters(self) -> dict[tuple[str, str], int]:
        """Bytes that passed from one site to another, by the proxy's own count."""
        url = f"http://127.0.0.1:{self._port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return received(lines)

    def _aim(self) -> None:
        """The client library keeps its server in one place for all."""
        self._server.update_api_consumer("127.0.0.1", self._port)

    def _toxic(self, source: str, target: str, kind: str, attributes: Mapping[str, int] | None) -> None:
        """Add, change or remove a toxic of one direction."""
        self._aim()
        proxy = self._server.get_proxy(_name(source, target))
        if proxy is None:
            known = ", ".join(sorted(self._server.proxies()))
            raise WanError(f"a link between two sites required, one of {known}; got {source} and {target}")
        stream = _UP if source < target else _DOWN
        name = f"{kind}_{stream}"
        there = proxy.get_toxic(name) is not None
        if attributes is None:
            if there:
                proxy.destroy_toxic(name)
        elif there:
            APIConsumer.post(f"/proxies/{proxy.name}/toxics/{name}", json={"attributes": dict(attributes)})
        else:
            proxy.add_toxic(name=name, type=kind, stream=stream, attributes=dict(attributes))

    def _enable(self, one: str, other: str, *, enabled: bool) -> None:
        self._aim()
        proxy = self._server.get_proxy(_name(one, other))
        if proxy is None:
            raise WanError(f"a link between two sites required; got {one} and {other}")
        if enabled:
            proxy.enable()
        else:
            proxy.disable()


_BETWEEN = "--"


def _name(one: str, other: str) -> str:
    """Of the proxy of a link; the site whose name sorts first dials."""
    return _BETWEEN.join(sorted((one, other)))


def link_name(dials: str, answers: str) -> str:
    """How a link is called in what ``create`` returns."""
    return _name(dials, answers)


def _shape(toxics: Mapping[str, Mapping[str, Any]]) -> Shape:
    latency, bandwidth = toxics.get("latency", {}), toxics.get("bandwidth", {})
    rate = bandwidth.get("rate")
    return Shape(latency.get("latency", 0), latency.get("jitter", 0), None if rate is None else rate * 1000.0)


def received(lines: Iterable[str]) -> dict[tuple[str, str], int]:
    """What the proxies received, from lines of Prometheus such as name{direction="upstream",...,proxy="a--b"} 12."""
    counted = {}
    for line in lines:
        if line.startswith("toxiproxy_proxy_received_bytes_total{"):
            labels, value = line.split("{", 1)[1].rsplit("} ", 1)
            found = dict(label.split("=", 1) for label in labels.split(","))
            dials, answers = found["proxy"].strip('"').split(_BETWEEN)
            way = (dials, answers) if found["direction"].strip('"') == _UP else (answers, dials)
            counted[way] = round(float(value))
    return counted
