"""What is made of the answers of several sites, when some have none."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cli.asking import NotReady, ask_all
from cli.show.diagnosis import diagnosis
from node.client import DaemonUnreachableError, NotNowError
from node.rpc import control_pb2 as pb

STARTING = "site beta is not ready: starting Spark, master local[2], since 12 s"
SILENT = "site gamma requires a running daemon at h:1; nobody answers"


class FakeClient:
    """One that knows its answer."""

    def __init__(self, answer: pb.StatusReply | Exception) -> None:
        self._answer = answer

    def status(self) -> pb.StatusReply:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_a_site_that_starts_is_told_from_one_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, pb.StatusReply | Exception] = {
        "alpha": pb.StatusReply(site="alpha"),
        "beta": NotNowError(STARTING),
        "gamma": DaemonUnreachableError(SILENT, "gamma"),
    }
    monkeypatch.setattr("cli.asking.Client", FakeClient)
    found = ask_all(cast("Any", {site: FakeClient(answer) for site, answer in answers.items()}))
    assert found == {"alpha": answers["alpha"], "beta": STARTING, "gamma": SILENT}
    assert [isinstance(answer, NotReady) for answer in found.values()] == [False, True, False]
    starting, silent = diagnosis(found, 100)
    assert starting == STARTING
    assert silent.startswith("site gamma does not answer (")
