"""The client: what is loaded for it, and what its errors say and to whom."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from node.client import (
    Client,
    DaemonFailedError,
    DaemonRefusedError,
    DaemonSilentError,
    DaemonUnreachableError,
    MissingRowsError,
    NotNowError,
    NotRightError,
    UnknownQueryError,
)
from node.client.errors import error_of
from spark_jobs.sink.client import SinkClient
from spark_jobs.sink.options import SinkError
from tests.unit.delivery import NAMES, Site

HEAVY = ("node.config", "node.core", "node.daemon", "node.io", "pyarrow", "numpy", "rich")


def test_to_ask_a_daemon_neither_its_own_code_nor_arrow_is_loaded() -> None:
    code = "import sys, node.client, node.client.start; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "grpc" in said
    assert [name for name in said if name.startswith(HEAVY)] == []


class Said(grpc.RpcError):
    """As gRPC raises it."""

    def __init__(self, code: grpc.StatusCode, details: str = "") -> None:
        super().__init__()
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[()]:
        return ()


@pytest.mark.parametrize(
    ("code", "details", "kind", "text"),
    [
        ("UNAVAILABLE", "refused", DaemonUnreachableError, "site cam requires a running daemon at h:1; nobody answers"),
        (
            "DEADLINE_EXCEEDED",
            "",
            DaemonSilentError,
            "site cam requires an answer of the daemon at h:1 within 7 s; got none: it is busy or hangs",
        ),
        ("NOT_FOUND", "unknown query", UnknownQueryError, "unknown query"),
        ("FAILED_PRECONDITION", "not yet", NotNowError, "not yet"),
        ("INVALID_ARGUMENT", "no such column", NotRightError, "no such column"),
        ("INTERNAL", "", DaemonFailedError, "INTERNAL"),
        (
            "UNIMPLEMENTED",
            "no Rows",
            DaemonRefusedError,
            "the daemon at h:1 is too old for what is asked of it (no Rows)",
        ),
    ],
)
def test_what_grpc_says_is_an_error_by_what_can_be_done_about_it(
    code: str, details: str, kind: type[Exception], text: str
) -> None:
    error = error_of(Said(grpc.StatusCode[code], details), "cam", "h:1", 7)
    assert (type(error), str(error)) == (kind, text)


def test_errors_survive_the_way_to_another_process() -> None:
    """Spark and pools of processes pickle them."""
    error = pickle.loads(pickle.dumps(DaemonUnreachableError("nobody answers", "cam")))
    assert (str(error), error.site) == ("nobody answers", "cam")


def test_nobody_at_an_address_is_said_with_it() -> None:
    with Client("cam", "127.0.0.1:1") as client, pytest.raises(DaemonUnreachableError) as named:
        client.status()
    assert str(named.value) == "site cam requires a running daemon at 127.0.0.1:1; nobody answers"
    assert named.value.site == "cam"
    with (
        Client.at("127.0.0.1:1") as client,
        pytest.raises(
            DaemonUnreachableError, match=r"^a running daemon is required at 127\.0\.0\.1:1; nobody answers \(.+\)$"
        ),
    ):
        client.status()


def test_in_spark_every_error_of_a_daemon_says_whose_it_is() -> None:
    with (
        SinkClient.at("127.0.0.1:1") as client,
        pytest.raises(SinkError, match=r"^narrows: a running daemon is required at 127\.0\.0\.1:1; nobody answers"),
    ):
        client.extent("cam-1-1")


def test_a_daemon_that_gives_fewer_rows_than_it_should_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, keep=False)
    try:
        site.store(0, 5)
        monkeypatch.setattr(site.query.spool, "pieces", lambda *_: [])
        with pytest.raises(MissingRowsError, match="query cam-1-1: required 4 rows from row 1 on; got 0"):
            list(site.client.rows("cam-1-1", site.query.run, 1, 5, NAMES))
    finally:
        site.close()
