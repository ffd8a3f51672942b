"""What whoever follows a query is told on standard error while rows do not come: once, and then rarely."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from node.client import Patience
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


class Notices:
    """Sites that a query waits for although its home answers, and whatever else keeps it."""

    def __init__(self, tell: Callable[[str], None] = say, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        #: By what is said, when it is to be said again, and after how long then.
        self._said: dict[str, tuple[float, float]] = {}

    def note(self, info: pb.QueryInfo) -> None:
        """What home says of the query now."""
        away = {each.site: each for each in info.away if each.seconds >= _AWAY_S or each.site in self._said}
        for site in [site for site in self._said if site not in away and site]:
            del self._said[site]
            self._tell(f"site {site} is back: query {info.query_id} goes on")
        for site, each in away.items():
            text = f"site {site} is away for {each.seconds:.0f} s ({each.trouble})"
            self._say(site, f"{text}; query {info.query_id} waits for it, nothing is lost")
        if info.trouble:
            self._say("", info.trouble)
        else:
            self._said.pop("", None)

    def _say(self, what: str, text: str) -> None:
        now_s = self._clock()
        at_s, pause_s = self._said.get(what, (now_s, _AGAIN_S))
        if now_s >= at_s:
            self._tell(text)
            self._said[what] = (now_s + pause_s, 2 * pause_s)
