"""Nothing that others learn, and nothing that is forgotten, comes before the records that it relies on are durable.

Correct here: frames, the closing of connections, cuts of logs, rows to store and reports to clients are done in the
order in which they came, each once, and those after a WriteRecords only when that and every one before it is written.
Rows wait because they outlive a crash too: without the record of the tick with which their query began, home would find
them and begin it elsewhere. For the same reason the log of a kept join waits, with all that is appended to it: it would
have those rows twice; and it is there as long as the record of the query that reads it says that this goes on. What
only this site sees and a crash undoes (its engine, reading) does not wait. Records go to the disk at once, so that
those of many turns share a commit, and nobody waits for the disk.

A disk may be full for days, and links are dialled again meanwhile: what waits for a connection goes with that, and one
that ends at once, with all that waits in it, waits for nothing. Its link says again on the next what was not heard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from node.core.effects import (
    AppendBatch,
    OpenLog,
    RemoveLog,
    ReportDropped,
    ReportQuery,
    StoreRows,
    TrimLog,
    WriteRecords,
)
from node.core.queries.query_id import is_kept_stream
from node.stack import CloseConnection, Output, SendFrame

#: What must not come before the records that were asked for before it.
_Promise = SendFrame | CloseConnection | TrimLog | OpenLog | RemoveLog | StoreRows | ReportQuery | ReportDropped


class Barrier:
    """Outputs of the stack on their way to being performed."""

    def __init__(
        self,
        perform: Callable[[Output], None],
        write: Callable[[WriteRecords], None] | None,
        noted: Callable[[WriteRecords], None] = lambda records: None,
    ) -> None:
        """``write`` hands records to the disk, which answers with ``written``; None: nothing is kept.

        ``noted`` is told of records once they are durable.
        """
        self._perform = perform
        self._write = write
        self._noted = noted
        #: What waits, with the records that it waits for among it.
        self._held: deque[Output] = deque()
        #: How many of those that were handed over are written already.
        self._durable = 0

    @property
    def held(self) -> int:
        """How many outputs wait for records."""
        return len(self._held)

    def put(self, outputs: Iterable[Output]) -> None:
        """What the stack asks for next."""
        for output in outputs:
            if isinstance(output, WriteRecords):
                if self._write is None:
                    self._noted(output)
                else:
                    self._held.append(output)
                    self._write(output)
            elif isinstance(output, CloseConnection) and output.at_once:
                self.closed(output.connection)
                self._perform(output)
            elif self._held and _is_promise(output):
                self._held.append(output)
            else:
                self._perform(output)

    def closed(self, connection: int) -> None:
        """A connection is gone: nothing that waits for it can be done."""
        self._held = deque(output for output in self._held if not _is_for(output, connection))

    def written(self, count: int) -> None:
        """So many more of the records that were handed over are durable."""
        self._durable += count
        while self._held:
            first = self._held[0]
            if isinstance(first, WriteRecords):
                if not self._durable:
                    return
                self._durable -= 1
                self._held.popleft()
                self._noted(first)
            else:
                self._perform(self._held.popleft())


def _is_promise(output: Output) -> bool:
    return isinstance(output, _Promise) or (isinstance(output, AppendBatch) and is_kept_stream(output.stream))


def _is_for(output: Output, connection: int) -> bool:
    return isinstance(output, SendFrame | CloseConnection) and output.connection == connection
