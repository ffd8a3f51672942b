"""Where daemons listen and where the others dial them; no two sites behind one endpoint."""

from __future__ import annotations

import ipaddress
import re

from node.config.problems import Problem, RefusedError, dotted, shown
from node.config.values import ClusterConfig

_ENDPOINT = re.compile(r"(?:\[(?P<v6>[^\[\]]+)\]|(?P<name>[A-Za-z0-9_.-]+)):(?P<port>[1-9][0-9]{0,4})")
_HOST_NAME = re.compile(
    r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
)


def endpoint(text: str) -> str:
    """A parser of "host:port"; the text stays as it was written."""
    try:
        _endpoint_parts(text)
    except ValueError:
        raise RefusedError('"host:port", port 1..65535, IPv6 as "[::1]:7701"', shown(text)) from None
    return text


def _endpoint_parts(text: str) -> tuple[str, int]:
    """Host and port in one canonical spelling, so that two spellings of one endpoint compare equal."""
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise ValueError(text)
    return _canonical_host(match["v6"], match["name"]), int(match["port"])


def _canonical_host(v6: str | None, name: str | None) -> str:
    if v6 is not None:
        return str(ipaddress.IPv6Address(v6))
    assert name is not None
    if re.fullmatch(r"[0-9.]+", name):
        return str(ipaddress.IPv4Address(name))
    if len(name) > 253 or _HOST_NAME.fullmatch(name) is None:
        raise ValueError(name)
    return name.lower().removesuffix(".")


def _is_wildcard(endpoint: str) -> bool:
    return _endpoint_parts(endpoint)[0] in ("0.0.0.0", "::")  # noqa: S104 (compared with, not bound)


def check_endpoints(config: ClusterConfig, problems: list[Problem]) -> None:
    """No two sites behind one endpoint.

    One exception: on different machines every daemon may listen on 0.0.0.0 and the same port, as
    long as the others are told an address to dial. A wildcard is never such an address.
    """
    listening = _Claims(str(config.path), problems)
    dialled = _Claims(str(config.path), problems)
    for site in config.sites:
        listen_key, address_key = (dotted("site", site.name, name) for name in ("listen", "address"))
        clash = bool(site.listen) and not _is_wildcard(site.listen) and not listening.claim(listen_key, site.listen)
        if not site.address or (clash and site.address == site.listen):
            continue
        if not _is_wildcard(site.address):
            dialled.claim(listen_key if site.address == site.listen else address_key, site.address)
        elif len(config.sites) > 1:
            got = f"{shown(site.address)}, which names no machine"
            problems.append(Problem(str(config.path), address_key, '"host:port" that the other sites can dial', got))


class _Claims:
    """Endpoints that are taken, and by which key."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._file = file
        self._problems = problems
        self._taken: dict[tuple[str, int], str] = {}

    def claim(self, key: str, endpoint: str) -> bool:
        """Take an endpoint; False, with a note, when another key has it."""
        owner = self._taken.setdefault(_endpoint_parts(endpoint), key)
        if owner != key:
            got = f"{shown(endpoint)}, which is also {owner}"
            self._problems.append(Problem(self._file, key, "an endpoint that no other site has", got))
        return owner == key
