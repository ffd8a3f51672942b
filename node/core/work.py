"""What a site has its engine do, and who waits for which answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from node.core.effects import RunOp
from node.core.engine import Change, Question
from node.core.queries.waiting import Waiting


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """The engine is to find what a holder of M fetches: the Fetch number ``fetch`` of the copy ``copy`` at ``peer``."""

    peer: str
    copy: int
    fetch: int


#: Who waits for an answer of the engine.
Asker = Waiting | FetchAnswer


class Work:
    """Operations for the engine, in order, numbered; and the questions that it has not answered."""

    def __init__(self, do: Callable[[RunOp], None]) -> None:
        self._do = do
        self._count = 0
        self.asking: dict[int, Asker] = {}

    def run(self, change: Change) -> None:
        """Have something changed, after what was asked for before."""
        self._count += 1
        self._do(RunOp(self._count, change))

    def ask(self, question: Question, asker: Asker) -> int:
        """Have something looked up; the number of the question."""
        self._count += 1
        self.asking[self._count] = asker
        self._do(RunOp(self._count, question))
        return self._count

    def take(self, op_id: int) -> Asker | None:
        """Whose answer this is; None if nobody wants it any more."""
        return self.asking.pop(op_id, None)

    def forget(self, query_id: str) -> None:
        """A query is over: nobody wants its answers."""
        gone = [op for op, who in self.asking.items() if isinstance(who, Waiting) and who.walk.query_id == query_id]
        for op_id in gone:
            del self.asking[op_id]
