"""What whoever follows a query is told on standard error while rows do not come: once, and then rarely."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from node.client import AwayTooLongError, Patience
from node.rpc import control_pb2 as pb

#: A link that is up again by then is not worth a word.
_AWAY_S = 3.0
_AGAIN_S = 60.0


def say(text: str) -> None:
    """On a line of its own, at once, whatever standard error is."""
    print(f"narrows: {text}", file=sys.stderr, flush=True)


def patience(wait_s: float | None) -> Patience:
    """For a command that waits at most so long; None: for ever."""
    return Patience(wait_s, say)


@dataclass
class _Notice:
    """Something that was said."""

    say_again_s: float
    pause_s: float = 2 * _AGAIN_S
    #: Since when it is over, if it is.
    over_s: float | None = None


class Notices:
    """Sites that a query waits for although its home answers, and whatever else keeps it."""

    def __init__(
        self,
        tell: Callable[[str], None] = say,
        clock: Callable[[], float] = time.monotonic,
        wait_s: float | None = None,
    ) -> None:
        """``wait_s`` is the longest to wait, each time that a site is away; None: for ever."""
        self._tell = tell
        self._clock = clock
        self._wait_s = wait_s
        #: By site that is away, since when it is waited for here; and how many rows had come by then.
        self._waiting_s: dict[str, float] = {}
        self._rows = 0
        #: By site, or by what else keeps the query.
        self._sites: dict[str, _Notice] = {}
        self._others: dict[str, _Notice] = {}

    def note(self, info: pb.QueryInfo, rows: int = 0) -> None:
        """What home says of the query now, and how many rows came. Raises AwayTooLongError if that is enough."""
        away = {each.site: each for each in info.away if each.seconds >= _AWAY_S or each.site in self._sites}
        for site in [site for site in self._sites if site not in away]:
            del self._sites[site]
            self._tell(f"site {site} is back: query {info.query_id} goes on")
        for site, each in away.items():
            text = f"site {site} is away for {each.seconds:.0f} s ({each.trouble})"
            self._say(self._sites, site, f"{text}; query {info.query_id} waits for it, nothing is lost")
        self._wait(info, rows)
        self._note(info.query_id, "trouble", info.trouble)
        self._note(info.query_id, "recovery", "" if info.away or info.trouble else _recovery(info))

    def _wait(self, info: pb.QueryInfo, rows: int) -> None:
        """Who gets rows does not wait; and what counts is only the time that a site was away without a pause."""
        now_s, before = self._clock(), self._waiting_s if rows == self._rows else {}
        self._waiting_s = {each.site: before.get(each.site, now_s) for each in info.away}
        self._rows = rows
        for each in info.away:
            waited_s = min(each.seconds, now_s - self._waiting_s[each.site])
            if self._wait_s is not None and waited_s >= self._wait_s:
                text = f"site {each.site} is away for {each.seconds:.0f} s ({each.trouble})"
                raise AwayTooLongError(f"{text}; query {info.query_id} waited for it longer than {self._wait_s:g} s")

    def _note(self, query_id: str, what: str, text: str) -> None:
        """A query that is kept for moments, again and again, is kept: that it goes on is said when it lasts."""
        if text:
            self._say(self._others, what, text)
            self._others[what].over_s = None
        elif (notice := self._others.get(what)) is not None:
            now_s = self._clock()
            notice.over_s = now_s if notice.over_s is None else notice.over_s
            if now_s - notice.over_s >= _AWAY_S:
                del self._others[what]
                self._tell(f"query {query_id} goes on")

    def _say(self, said: dict[str, _Notice], what: str, text: str) -> None:
        now_s = self._clock()
        notice = said.get(what)
        if notice is None:
            self._tell(text)
            said[what] = _Notice(now_s + _AGAIN_S)
        elif now_s >= notice.say_again_s:
            self._tell(text)
            said[what] = _Notice(now_s + notice.pause_s, 2 * notice.pause_s)


def _recovery(info: pb.QueryInfo) -> str:
    """That a query is not where it was, although all its sites answer; nothing while that is not worth a word."""
    if not info.HasField("recovery") or info.recovery.seconds < _AWAY_S:
        return ""
    what = f"waits for {', '.join(info.waiting_for)}" if info.waiting_for else "catches up"
    lost = f"query {info.query_id} recovers for {info.recovery.seconds:.0f} s ({info.recovery.reason})"
    return f"{lost}: it {what}; nothing is lost"
