"""How a Toxiproxy server on loopback is asked: directly, with a limit, whatever proxies the user has for the web."""

from __future__ import annotations

import json
import random
import socket
import urllib.request
from enum import Enum
from http.client import HTTPException
from typing import Any

import requests
import toxiproxy.api

_ANSWER_S_MAX = 10.0
#: Of the disabled proxy by whose name we know a server that we have started.
_MARK = "narrows-"


#: Below the range from which systems take ports for outgoing connections: a proxy that is closed for a while must find
#: its port free again.
_QUIET_PORTS = range(20_000, 32_000)


class Answer(Enum):
    """Who is there, on a port of loopback."""

    NOBODY = "nobody"
    #: The server that we started.
    OURS = "ours"
    STRANGER = "a stranger"
    #: Somebody who takes connections and says nothing.
    SILENT = "somebody silent"


def mark_name(token: str) -> str:
    """Of the proxy that marks a server; no link is called like this."""
    return _MARK + token


def is_mark(name: str) -> bool:
    """Whether a proxy is such a mark."""
    return name.startswith(_MARK)


def get(port: int, path: str, seconds_max: float = _ANSWER_S_MAX) -> bytes:
    """What a server of loopback answers. Raises OSError, of which HTTPException is not one: that is turned into it."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"http://127.0.0.1:{port}{path}", timeout=seconds_max) as reply:
            content: bytes = reply.read()
            return content
    except HTTPException as error:
        raise OSError(f"not HTTP: {error!r}") from None


def who_answers(port: int, token: str, seconds_max: float = _ANSWER_S_MAX) -> Answer:
    """Whether the server that was marked with ``token`` is on this port.

    As long as it is, the process that we started lives, and its number is nobody else's.
    """
    if not answers(port):
        return Answer.NOBODY
    try:
        found = json.loads(get(port, "/proxies", seconds_max))
    except TimeoutError:
        return Answer.SILENT
    except OSError as error:
        return Answer.SILENT if isinstance(getattr(error, "reason", None), TimeoutError) else Answer.STRANGER
    except ValueError:
        return Answer.STRANGER
    return Answer.OURS if isinstance(found, dict) and mark_name(token) in found else Answer.STRANGER


def answers(port: int) -> bool:
    """Whether somebody listens on a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def quiet_port() -> int:
    """A port of loopback that is free now and is not taken by chance."""
    while True:
        port = random.SystemRandom().choice(_QUIET_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class _Direct(requests.Session):
    """Requests past the user's web proxies, over one connection, none for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def request(self, *arguments: Any, **options: Any) -> requests.Response:
        options.setdefault("timeout", _ANSWER_S_MAX)
        return super().request(*arguments, **options)


# The client library has no other place to say so: it calls the functions of the module ``requests``.
toxiproxy.api.requests = _Direct()
