"""All sites are asked at once, so that one that hangs delays nobody else's answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from node.client import Client, NotNowError
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError

Answer = TypeVar("Answer")

#: Answers that are older than this, because others were waited for, are asked for again.
_FRESH_S = 1.0


class NotReady(str):
    """Why a site does not say it, although it answers: it is starting."""


def ask_all(clients: Mapping[str, Client]) -> dict[str, pb.StatusReply | str]:
    """By site, in the order of ``clients``: its status, or why there is none. The answers are of one moment."""
    return ask_each(clients, Client.status)


def ask_each(clients: Mapping[str, Client], question: Callable[[Client], Answer]) -> dict[str, Answer | str]:
    """The same for any question."""
    began_s = time.monotonic()
    answers = _asked(clients, question)
    if time.monotonic() - began_s > _FRESH_S:
        answering = {site: client for site, client in clients.items() if not isinstance(answers[site], str)}
        answers |= _asked(answering, question)
    return answers


def _asked(clients: Mapping[str, Client], question: Callable[[Client], Answer]) -> dict[str, Answer | str]:
    def answer(client: Client) -> Answer | str:
        try:
            return question(client)
        except NotNowError as error:
            return NotReady(error)
        except NarrowsError as error:
            return str(error)

    with ThreadPoolExecutor(max(1, len(clients))) as pool:
        return dict(zip(clients, pool.map(answer, clients.values()), strict=True))
