"""A connection to one daemon, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

import grpc

from node.client.errors import MissingRowsError, StartingError, UnknownQueryError, error_of
from node.client.follower import Follower
from node.client.patience import AWAY, Patience
from node.rpc import control_pb2 as pb
from node.rpc.control_pb2_grpc import ControlStub, ReadinessStub
from planner.model.errors import NarrowsError

if TYPE_CHECKING:
    import pyarrow as pa

Request = TypeVar("Request")
Reply = TypeVar("Reply")

#: A daemon on the other side of a slow link may take a while; a dead one is noticed at once.
CALL_S_MAX = 20.0
#: A status is there at once; a daemon that has not said it by then hangs, and a person waits.
STATUS_S_MAX = 5.0
#: Whoever asks for this asks again, and may have to look after a process meanwhile.
READINESS_S_MAX = 1.0

_OPTIONS = (
    # One row may be large, and the daemon is ours.
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_retries", 0),
    # A daemon that is gone without a word is noticed while we wait for rows.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Whoever asks again is answered as soon as the daemon is there. gRPC would wait longer each time, up to minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 100),
)


class Client:
    """A connection to the daemon of one site. Every method raises an error of ``node.client.errors`` if it fails.

    With patience, whatever is about rows waits for a daemon that is away, and raises AwayTooLongError in the end; what
    was asked is asked again, which changes nothing.
    """

    def __init__(self, site: str, address: str, patience: Patience | None = None) -> None:
        self.site = site
        self.address = address
        self.patience = patience
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._control = ControlStub(self._channel)
        self._readiness = ReadinessStub(self._channel)

    @classmethod
    def at(cls, address: str, patience: Patience | None = None) -> Self:
        """For those who know where a daemon is, and not which site it is of."""
        return cls("", address, patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    # -- the daemon -----------------------------------------------------------------------------

    def readiness(self) -> pb.ReadyReply:
        """How far the daemon is. Only this is answered while it starts; all else is a NotNowError until it is ready."""
        return self._ask(self._readiness.Ready, pb.Empty(), READINESS_S_MAX)

    def status(self) -> pb.StatusReply:
        return self._ask(self._control.Status, pb.Empty(), STATUS_S_MAX)

    def walks(self, query_id: str) -> list[pb.WalkStatus]:
        """Walks under way at the site: those of a query, or of all if none is named."""
        return list(self._ask(self._control.Walks, pb.WalksRequest(query_id=query_id), STATUS_S_MAX).walks)

    # -- queries --------------------------------------------------------------------------------

    def issue(self, text: str, algorithm: str, policy: str = "frontier") -> pb.IssueReply:
        """Install a query with a forced plan."""
        return self.install(pb.IssueRequest(text=text, algorithm=algorithm, policy=policy))

    def install(self, request: pb.IssueRequest) -> pb.IssueReply:
        """Plan a query as the request says, and install it."""
        return self._ask(self._control.Issue, request)

    def explain(self, request: pb.ExplainRequest) -> pb.ExplainReply:
        return self._ask(self._control.Explain, request)

    def queries(self) -> list[pb.QueryInfo]:
        return list(self._ask(self._control.Queries, pb.Empty()).queries)

    def query(self, query_id: str) -> pb.QueryInfo:
        """What home says of one query; a daemon that is away is waited for. Raises UnknownQueryError."""
        reply = self._ask_again(self._control.Queries, pb.Empty(), f"to ask about {query_id}")
        for info in reply.queries:
            if info.query_id == query_id:
                return info
        raise UnknownQueryError(f"site {self.site} requires a query of its own; it knows no {query_id}")

    def replan(self, request: pb.ReplanRequest) -> pb.ReplanReply:
        """Have a query go on with another plan; the answer comes when that is being prepared."""
        return self._ask(self._control.Replan, request)

    def drop(self, query_id: str) -> None:
        self._ask(self._control.Drop, pb.DropRequest(query_id=query_id))

    # -- rows -----------------------------------------------------------------------------------

    def await_ready(self, patience: Patience, purpose: str) -> None:
        """Wait until the daemon serves."""

        def ready() -> None:
            said = self.readiness()
            if not said.ready:
                raise StartingError(f"it is starting: {said.steps[-1] if said.steps else 'it began'}", self.site)

        patience.ask(ready, purpose)

    def follow(self, query_id: str, reader: str = "") -> Follower:
        """The rows of a query as they come, from where its reader left off."""
        return Follower(self._control.Follow, query_id, reader, self.error, self.patience)

    def extent(self, query_id: str, past: int = 0, wait_ms: int = 0, reader: str = "") -> pb.ExtentReply:
        """What can be read now; with ``wait_ms``, as soon as there are rows past ``past``, or after that time.

        For ``reader`` rows are kept from now on, and how far it is is said too; without one how far ``default`` is.
        """
        request = pb.ExtentRequest(query_id=query_id, past=past, wait_ms=wait_ms, reader=reader)
        return self._ask_again(self._control.Extent, request, f"to ask for rows of {query_id}")

    def take(
        self,
        query_id: str,
        run: str,
        before: int,
        *,
        reader: str = "",
        client: str = "",
        seen: int = 0,
        patient: bool = True,
    ) -> None:
        """Rows before a number are kept by a reader, and those before ``seen`` read; ``client`` is a follower's.

        Unless ``patient``, it does not wait for a daemon that is away.
        """
        request = pb.TakeRequest(query_id=query_id, run=run, before=before, reader=reader, client=client, seen=seen)
        if patient:
            self._ask_again(self._control.Take, request, f"to say that rows of {query_id} before {before:,} are kept")
        else:
            self._ask(self._control.Take, request)

    def forget(self, query_id: str, reader: str) -> None:
        """A reader will not come back."""
        self._ask(self._control.Forget, pb.ForgetRequest(query_id=query_id, reader=reader))

    def rows(self, query_id: str, run: str, first: int, end: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows from ``first`` to before ``end``, in order, with these columns and no others.

        Raises MissingRowsError if the daemon does not give them all.
        """
        request = pb.RowsRequest(query_id=query_id, run=run, first=first, end=end, columns=columns)
        while True:
            try:
                for rows in self._read_rows(request):
                    request.first += rows.num_rows
                    if self.patience is not None:
                        self.patience.back()
                    yield rows
                break
            except AWAY as error:
                if self.patience is None:
                    raise
                self.patience.away(error, f"to go on with row {request.first:,} of {query_id}")
        if request.first != end:
            got = request.first - first
            raise MissingRowsError(f"query {query_id}: required {end - first} rows from row {first} on; got {got}")

    def _read_rows(self, request: pb.RowsRequest) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 - takes longer to load than all else here, and only this needs it

        try:
            replies = self._control.Rows(request)
            schema = pa.ipc.read_schema(pa.py_buffer(next(replies).schema))
            for reply in replies:
                yield pa.ipc.read_record_batch(pa.py_buffer(reply.rows), schema)
        except grpc.RpcError as error:
            raise self.error(error) from None

    # -- calls ----------------------------------------------------------------------------------

    def _ask(
        self,
        method: grpc.UnaryUnaryMultiCallable[Request, Reply],
        request: Request,
        timeout_s: float = CALL_S_MAX,
    ) -> Reply:
        try:
            return method(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise self.error(error, timeout_s) from None

    def _ask_again(self, method: grpc.UnaryUnaryMultiCallable[Request, Reply], request: Request, purpose: str) -> Reply:
        """Something that may be asked twice."""
        if self.patience is None:
            return self._ask(method, request)
        return self.patience.ask(lambda: self._ask(method, request), purpose)

    def error(self, error: grpc.RpcError, waited_s: float = 0.0) -> NarrowsError:
        """What to raise for what gRPC says of a call that had so long."""
        return error_of(error, self.site, self.address, waited_s)
