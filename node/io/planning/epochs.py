"""One query that runs, from epoch to epoch: when to look at it, what was measured meanwhile, and what looking may cost.

An epoch is so many ticks of what is done: a query at rest has none, and is not asked about. To ask what the sites
counted costs little, to have them measure their streams costs more; both are done only for a small share of what the
query itself sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from node.core.effects import ReportStatistics
from node.core.streams.ticks import TICK_END, TICK_MIN
from planner.model.query import JoinQuery, RangeWindow
from planner.search.replanning import Measured, Way

#: Of what a query sends so much may be spent on looking at it.
COUNTS_SHARE = 0.02
SURVEY_SHARE = 0.05
#: So many surveys may be saved up. Without a reason one is made only if another is left over for when there is one.
_SAVED_SURVEYS = 3
_SPENT_SURVEYS = 2
#: What a query sends, or shipping everything would, has changed if it is so many times as much or as little.
_CHANGED_FACTOR = 1.5
#: About what a question and its answer take with each site: of counts; and of a profile its own part, and of each
#: column and key of a sketch.
_COUNTS_BYTES = 150.0
_PROFILE_BYTES, _COLUMN_BYTES, _KEY_BYTES = 150.0, 12.0, 6.0
#: What sites send at most of a sketch, and about as many columns as keys of it, before the first one was seen.
_KEYS_MAX = 512
#: What is urgent may take so many surveys more than were earned.
_DEBT_SURVEYS = 3
_SKIPPED_EPOCHS_MAX = 60
#: An epoch takes at least so long by the clock; and a query of which nothing is done is looked at after an epoch that
#: is at least as long as this, then less and less often.
EPOCH_S_MIN = 1.0
STILL_S_MIN = 2.0
_STILL_S_MAX = 600.0
#: How fast event time went in the last epochs: what a link cannot carry holds it up.
_PACES = 6
#: An epoch that takes so many times as long as it should is over; and a query that is further behind its streams than
#: when they were measured last, by such a share of an epoch, does not keep up.
_LAGS = 1.2
_BEHIND_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Look:
    """What was counted of a query up to some moment."""

    tick: int
    at_s: float
    sent: Mapping[Way, int]
    ship_all: Mapping[str, int]
    frontiers: Mapping[str, int]

    @property
    def is_near_end(self) -> bool:
        """Whether some stream has ended: what comes now is no measure of anything."""
        return TICK_END in self.frontiers.values()


@dataclass(frozen=True, slots=True)
class _State:
    """What was sent in a second, what shipping everything would have, and by how many ticks it was behind."""

    sent: float
    ship_all: float
    behind: int


def look_of(found: ReportStatistics, tick: int, at_s: float) -> Look:
    """As the sites said."""
    sent = {(site, peer): nbytes for site, counts in found.counts.items() for peer, nbytes in counts.sent}
    ship_all = {alias: nbytes for counts in found.counts.values() for alias, nbytes in counts.ship_all}
    frontiers = {alias: tick for counts in found.counts.values() for alias, tick in counts.frontiers}
    return Look(tick, at_s, sent, ship_all, frontiers)


def survey_bytes(found: ReportStatistics, query: JoinQuery, home: str) -> float:
    """About what the profiles of other sites took."""
    aliases = [ref.alias for ref in query.streams if ref.stream.site != home]
    others = [found.profiles[alias] for alias in aliases if alias in found.profiles]
    keys = sum(min(_KEYS_MAX, len(sketch.hashes)) for each in others for sketch in each.keys.values())
    return _KEY_BYTES * keys + sum(_PROFILE_BYTES + _COLUMN_BYTES * len(each.column_bytes) for each in others)


def window_ticks(query: JoinQuery, tau_us: int) -> int:
    """The longest window by time."""
    lengths = [ref.window.length_us for ref in query.streams if isinstance(ref.window, RangeWindow)]
    return ceil(max(lengths, default=0) / tau_us)


class Epochs:
    """Those of one query."""

    def __init__(self, query: JoinQuery, home: str, epoch_ticks: int, tau_us: int) -> None:
        self._query, self._home = query, home
        self._ticks, self._tau_s = epoch_ticks, tau_us / 1e6
        self._window = window_ticks(query, tau_us)
        #: What the next epoch is compared with; None: nothing yet.
        self._last: Look | None = None
        #: Until then nothing is looked at: copies are being filled. None: it is not known where it begins.
        self._rest: int | None = None
        #: Where it was when it was last asked about, and since when; and how many epochs are left out.
        self._tick = TICK_MIN
        self._moved_s = 0.0
        self._stills = 0
        self._skipped = 0
        #: The next look is after half an epoch.
        self._is_half = False
        self._remote = len({ref.stream.site for ref in query.streams} - {home})
        self._credit = 0.0
        #: How it was when streams were measured last, or it was first looked at; and now.
        self._surveyed: _State | None = None
        self._state: _State | None = None
        self._survey = self._remote * (_PROFILE_BYTES + _KEY_BYTES * _KEYS_MAX / 2)
        self._paces: deque[float] = deque(maxlen=_PACES)

    def past_us(self, *, lately: bool) -> int:
        """How much of the past streams are measured by: the tuples of an epoch, and all that they see.

        Of what came before the epoch only windows are looked at, so a decision is by what is found in the epoch. If
        something has changed in the last one, what was found ``lately`` is more like what will be: in its second half.
        """
        ticks = self._ticks / 2 if lately else self._ticks
        return round((ticks + self._window) * self._tau_s * 1e6)

    @property
    def pace(self) -> float:
        """Seconds of event time in one of the clock."""
        return max(self._paces, default=1.0)

    @property
    def length_s(self) -> float:
        """What an epoch takes by the clock."""
        return max(EPOCH_S_MIN, self._ticks * self._tau_s / self.pace)

    def rest(self, tick: int, epochs: int = 1) -> None:
        """What was measured before says nothing any more, and what is measured soon says little."""
        self._last = self._surveyed = self._state = None
        self._credit = min(self._credit, self._survey)
        self._rest = max(tick, self._tick) + max(epochs * self._ticks, self._window)

    def begin_plan(self, tick: int) -> None:
        """Another plan runs: when windows are its own, half an epoch says whether it is as expected."""
        self.rest(tick, 0)
        self.look_soon()

    def look_soon(self) -> None:
        """The epoch that has just begun is half as long."""
        self._is_half = True

    def is_due(self, tick: int, now_s: float) -> bool:
        """Whether to look; ``tick`` is where the slowest head is done."""
        if tick in (TICK_MIN, TICK_END):
            return False
        if self._rest is None:
            self._tick, self._moved_s = tick, now_s
            self.rest(tick, 0)
        if tick != self._tick:
            self._tick, self._moved_s, self._stills = tick, now_s, 0
        elif now_s - self._moved_s >= min(max(STILL_S_MIN, self.length_s) * 2**self._stills, _STILL_S_MAX):
            # Something may be in its way.
            self._moved_s = now_s
            self._stills += 1
            return True
        if self._rest is not None and tick < self._rest:
            return False
        if self._last is None:
            return True
        epochs, took_s = 0.5 if self._is_half else 1.0 + self._skipped, now_s - self._last.at_s
        if took_s < EPOCH_S_MIN or tick == self._last.tick:
            return False
        # What is done may lag behind its streams, if a link does not carry what is sent.
        return tick >= self._last.tick + epochs * self._ticks or took_s >= _LAGS * epochs * self.length_s

    @property
    def has_changed(self) -> bool:
        """Whether what is sent, or would be, is not what it was when streams were measured last, or it lags since."""
        if self._surveyed is None or self._state is None:
            return False
        before, now = self._surveyed, self._state
        return self.lags or _differs(before.sent, now.sent) or _differs(before.ship_all, now.ship_all)

    @property
    def lags(self) -> bool:
        """Whether it is further behind its streams than it was then."""
        if self._surveyed is None or self._state is None:
            return False
        return self._state.behind > self._surveyed.behind + _BEHIND_SHARE * self._ticks

    def may_survey(self, *, urgent: bool) -> bool:
        """Whether streams may be measured now; something urgent may run into debt."""
        return self._credit >= (-_DEBT_SURVEYS if urgent else _SPENT_SURVEYS) * self._survey

    def is_late(self, now_s: float) -> bool:
        """Whether it was not looked at for some time, so that a change that is noticed may be a reason to."""
        return self._last is not None and now_s >= self._last.at_s + max(EPOCH_S_MIN, self.length_s / 4)

    def take(self, look: Look) -> Measured | None:
        """What was measured since the last look; None if that is not known."""
        last, self._last = self._last, look
        if last is None or look.tick <= last.tick or last.sent.keys() - look.sent.keys() or look.is_near_end:
            return None
        seconds = (look.tick - last.tick) * self._tau_s
        sent = {way: nbytes - last.sent.get(way, 0) for way, nbytes in look.sent.items()}
        ship_all = {alias: nbytes - last.ship_all.get(alias, 0) for alias, nbytes in look.ship_all.items()}
        if min([0, *sent.values(), *ship_all.values()]) < 0:
            # A site was restarted.
            return None
        if look.tick - last.tick >= self._ticks:
            # One that was looked at early, as something was in its way, says nothing of how fast time goes without.
            self._paces.append(seconds / max(1e-3, look.at_s - last.at_s))
        total = sum(sent.values())
        self._credit = min(self._credit + SURVEY_SHARE * total, _SAVED_SURVEYS * self._survey)
        epochs = max(1.0, (look.tick - last.tick) / self._ticks)
        counts_bytes = self._remote * _COUNTS_BYTES
        self._skipped = min(_SKIPPED_EPOCHS_MAX, ceil(counts_bytes / (COUNTS_SHARE * max(1.0, total / epochs))) - 1)
        # While it falls behind more is sealed, and so sent, than is done.
        sealed_s = min((self._sealed_s(alias, last, look) for alias in look.frontiers), default=seconds)
        measured = Measured(
            {way: size / max(seconds, sealed_s) for way, size in sent.items()},
            {alias: size / self._sealed_s(alias, last, look) for alias, size in ship_all.items()},
            self.pace,
        )
        behind = max([0, *(frontier - look.tick for frontier in look.frontiers.values())])
        self._state = _State(sum(measured.sent.values()), sum(measured.ship_all.values()), behind)
        self._surveyed, self._is_half = self._surveyed or self._state, False
        return measured

    def _sealed_s(self, alias: str, last: Look, look: Look) -> float:
        """How much of a stream was sealed between two looks: more or less than was done."""
        ticks = look.frontiers.get(alias, look.tick) - last.frontiers.get(alias, last.tick)
        return max(1, ticks) * self._tau_s

    def surveyed(self, found: ReportStatistics) -> None:
        """Streams were measured."""
        self._survey = survey_bytes(found, self._query, self._home)
        self._credit -= self._survey
        self._surveyed = self._state


def _differs(before: float, now: float) -> bool:
    return not 1 / _CHANGED_FACTOR < (now + 1) / (before + 1) < _CHANGED_FACTOR
