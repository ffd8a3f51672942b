"""What must be true of all sites together after every message.

 1  no message, ending or stored row speaks of a tick that is not durable in its stream's log
 2  frontiers and done never fall (over crashes: ``durability``)
 4  each (query, head, tick) is stored by at most one walk
 5  spans of a head do not overlap
 6  no lease lies before what its arrangement keeps, no done minus window before what the log keeps
 8  every bit of a tuple that was sent to W' is a tuple that came there
 9  both books of a step agree once what is under way is read
11  each undone tick of a head is in exactly one place (``accounts``), and each walk that waits has a cause to go on
13  leases belong to live queries; no arrangement is without a lease; both halves of a copy are there
15  a log holds what is needed or retained, and little more; at its quota no source is read, and what is needed stays

3 is in ``durability``, 7 the judge of copies (``copies``). 10: of a generation that is void at a site nothing waits or
asks there. 12 are the oracle's rows, which every walk again must give. 14 is the deadline of a run.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from node.core.algorithms.questions import AskingSource, FindingDestination
from node.core.arrangements.copies.copy import ROWS_AXIS, HeldCopy, OwnedCopy
from node.core.arrangements.copies.full_copy import FullHolder
from node.core.arrangements.copies.key_copy import CountedCopy, KeysHolder
from node.core.arrangements.copies.mixed_copy import MixedHolder, MixedOwner
from node.core.arrangements.copies.reduced_copy import ReducedHolder, ReducedOwner
from node.core.arrangements.lease import Lease
from node.core.arrangements.reach import Reach, reach_of
from node.core.arrangements.table import RowTable
from node.core.effects import StoreRows
from node.core.keys.keybook import KeyBook
from node.core.links.messages import (
    AskMatches,
    Carry,
    CloseCopy,
    Done,
    Fetch,
    Fetched,
    KeyAnswer,
    Message,
    OpenCopy,
    Rows,
    Sync,
    TupleAnswer,
)
from node.core.queries.home.home_query import HomeQuery
from node.core.queries.query_id import query_of
from node.core.queries.run import QueryRun
from node.core.site import Site
from node.core.streams.stream import StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN, Span, tick_start, tick_text
from node.core.work import FetchAnswer
from node.stack import Stack
from planner.model.query import PolicyName
from tests.sim.judges.accounts import TickAccounts
from tests.sim.judges.copies import CopyJudge
from tests.sim.judges.invariant import broken
from tests.sim.judges.views import View, Views
from tests.sim.mail import Mail
from tests.sim.scenarios.queries import QuerySpec
from tests.sim.scenarios.scenario import NO_QUOTA


class Invariants:
    """Looks at all sites of a run; remembers what it needs to look only at what has changed."""

    def __init__(
        self,
        nodes: Mapping[str, Stack],
        mail: Mail,
        views: Views,
        copies: CopyJudge,
        specs: Mapping[str, QuerySpec],
        tau_ms: int,
    ) -> None:
        self._tau_ms = tau_ms
        self._nodes = nodes
        self._mail = mail
        self._views = views
        self._copies = copies
        self._specs = specs
        self._accounts = TickAccounts(nodes, mail)
        #: By stream, the highest frontier that was ever durable.
        self._durable: dict[str, int] = {}
        #: By site and thing, what must not fall; and by owner's half, the tick it was opened for.
        self._risen: dict[str, dict[object, tuple[int, ...]]] = {}
        self._opened: dict[str, dict[object, int]] = {}
        #: By site and arrangement: what was kept, and for whom, at the last look.
        self._kept: dict[str, dict[object, tuple[int, list[Lease], list[Lease]]]] = {}
        self._stored: dict[tuple[str, str], list[Span]] = {}
        self._fed: dict[str, int] = {}
        self._bits: dict[object, tuple[int, int]] = {}
        self._books: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._restarted: set[str] = set()
        #: By site whose disk was lost, the queries that there were then.
        self._emptied: dict[str, set[str]] = {}
        #: Queries that some site has ended alone; their homes may not have heard.
        self.given_up: set[str] = set()
        self._pending: dict[str, set[int]] = {}
        self.checks = 0
        #: How often the halves of a copy were compared although one of the sites had died before.
        self.checks_again = 0

    # -- what happens -------------------------------------------------------------------------

    def logged(self, stream: str, frontier: int) -> None:
        """A stream's log is durable up to a tick."""
        self._durable[stream] = max(frontier, self._durable.get(stream, TICK_MIN))

    def begun(self, stream: str) -> None:
        """A stream begins, perhaps one that had been there before, and its log is empty."""
        self._durable.pop(stream, None)
        self._fed.pop(stream, None)

    def asked(self, site: str, op_id: int) -> None:
        """The engine was asked something, and will answer."""
        self._pending.setdefault(site, set()).add(op_id)

    def answered(self, site: str, op_id: int) -> None:
        """The engine has answered."""
        self._pending[site].discard(op_id)

    def restarted(self, site: str, fresh: bool) -> None:
        """A site begins anew, from what its disk has."""
        self._restarted.add(site)
        self._accounts.died(site)
        if fresh:
            known = {query_id for node in self._nodes.values() for query_id in (*node.site.homes, *node.site.pins)}
            self._emptied.setdefault(site, set()).update(known)
        self._risen.pop(site, None)
        self._opened.pop(site, None)
        self._kept.pop(site, None)
        self._pending.pop(site, None)

    def stored(self, effect: StoreRows) -> None:
        """The sink has rows of a walk."""
        place, span = (effect.query_id, effect.head), effect.span
        spans = self._stored.setdefault(place, [])
        at = bisect_left(spans, span)
        for other in spans[max(0, at - 1) : at + 1]:
            if other.first < span.end and span.first < other.end:
                raise broken(4, f"{effect.query_id} {effect.head} {span} is stored beside {other}")
        insort(spans, span)
        self._speaks(f"a stored row of {effect.query_id}", effect.query_id, effect.head, span.end)

    def after(self, site: str) -> None:
        """A site has handled something."""
        self.checks += 1
        state = self._nodes[site].site
        self._check_sent(site)
        self._check_progress(site, state)
        self._check_leases(site, state)
        self._check_kept(site, state)
        self._check_halves(site, state)
        self._check_books(state)
        self._check_causes(site, state)
        self._check_floor(site, state)
        self._accounts.check_next()

    # -- 1 and 2: ticks -----------------------------------------------------------------------

    def _speaks(self, who: str, query_id: str, head: str, tick: int, first_tick: int = TICK_MIN) -> None:
        stream = next(ref.stream for ref in self._specs[query_of(query_id)].refs if ref.alias == head)
        durable = self._durable.get(stream, TICK_MIN)
        if tick > max(durable, first_tick):
            raise broken(1, f"{who} speaks of tick {tick_text(tick)} of {stream}, durable up to {tick_text(durable)}")

    def _check_sent(self, site: str) -> None:
        for message in self._mail.sent:
            if isinstance(message, Carry | AskMatches | KeyAnswer | TupleAnswer | Rows):
                what = f"{type(message).__name__} of {message.query_id} from {site}"
                self._speaks(what, message.query_id, message.head, message.span.end)
            elif isinstance(message, Done):
                runs = _runs_of(self._nodes[site].site, message.query_id)
                first = max((run.first_tick for run in runs), default=TICK_END)
                for head, tick in message.frontiers:
                    self._speaks(f"Done of {message.query_id}", message.query_id, head, tick, first)

    def _check_progress(self, site: str, state: Site) -> None:
        now = dict(self._rising(state))
        before = self._risen.get(site, {})
        for thing, values in now.items():
            if any(new < old for new, old in zip(values, before.get(thing, values), strict=True)):
                raise broken(2, f"{_name(thing)} at {site} fell from {before[thing]} to {values}")
        self._risen[site] = now
        arrangements, opened = state.arrangements, self._opened.get(site, {})
        for name in state.streams:
            for table in arrangements.local.of(name):
                self._check_durable(f"table {table.name} at {site}", name, table.frontier, TICK_MIN)
        for held in arrangements.held.all:
            self._check_durable(f"{held.progress.name} at {site}", held.spec.stream, held.frontier, held.opened)
        self._opened[site] = {owned: opened.get(owned, owned.frontier) for owned in arrangements.owned.all}
        for owned in arrangements.owned.all:
            first = self._opened[site][owned]
            self._check_durable(owned.progress.name, owned.spec.stream, owned.frontier, first)

    @staticmethod
    def _rising(state: Site) -> Iterator[tuple[object, tuple[int, ...]]]:
        """Everything that must not fall."""
        arrangements = state.arrangements
        yield from ((stream, (stream.fed,)) for stream in state.streams.values())
        yield from ((table, (table.frontier, table.kept_from)) for table in arrangements.local.all)
        yield from ((held, (held.frontier, held.kept_from)) for held in arrangements.held.all)
        for owned in arrangements.owned.all:
            yield owned, (owned.frontier, owned.ordinals.first if isinstance(owned, CountedCopy) else 0)
        for home in state.homes.values():
            if home.sink is not None:
                yield from ((ledger, (ledger.done,)) for ledger in home.sink.heads.values())
        yield from ((run, tuple(run._done.values())) for run in state.runs.values() if run._done)

    def _check_durable(self, who: str, stream: str, frontier: int, opened: int) -> None:
        durable = self._durable.get(stream, TICK_MIN)
        if frontier > max(durable, opened):
            raise broken(1, f"{who} is sealed up to {tick_text(frontier)}, its log to {tick_text(durable)}")

    # -- 6: what is kept ----------------------------------------------------------------------

    def _check_kept(self, site: str, state: Site) -> None:
        before, now = self._kept.get(site, {}), {}
        for thing, kept, leases, view in self._keeping(state):
            # Who only starts walks of a stream of the site has them from its log: rows go when nobody looks any more.
            has_log = isinstance(thing, RowTable)
            frozen = [lease for lease in leases if lease.frozen and not (has_log and lease.keys is None)]
            now[thing] = (kept, list(leases), frozen)
            old_kept, old_leases, old_frozen = before.get(thing, (kept, [], []))
            # Keys die at a holder when their owner says so: there it is the owner that must not forget.
            told = isinstance(thing, KeysHolder | MixedHolder)
            if kept > old_kept and not told and any(lease in old_frozen for lease in frozen):
                raise broken(6, f"{_name(thing)} at {site} forgot up to {kept} under a lease that is frozen")
            if (kept, leases, frozen) == (old_kept, old_leases, old_frozen):
                continue
            for lease in leases:
                if isinstance(thing, OwnedCopy) and lease.query_id not in thing.users:
                    # Its query may turn out to use another copy.
                    continue
                seen, first = self._seen(thing, lease, kept, view)
                number = self._needed(state, lease, seen)
                if number is not None and first > number:
                    raise broken(
                        6,
                        f"{_name(thing)} at {site} keeps what is from {first} on; {lease.query_id} {lease.reach.alias} "
                        f"needs it from {number} on",
                    )
        self._kept[site] = now

    def _seen(self, thing: object, lease: Lease, kept: int, view: View) -> tuple[View, int]:
        """The view of which a lease's tuples are, and the number there of the first that is kept.

        A full copy has what several filters let pass, so its own numbers are those of no view.
        """
        if not isinstance(thing, FullHolder) or thing.spec.axis is ROWS_AXIS or not thing.table.keys:
            return view, kept
        own = self._views.of(thing.spec.stream, lease.reach.filter, self._copies.begun(thing))
        oldest = thing.table._ordinals.time_of(kept)
        return own, own.end(thing.frontier) if oldest is None else own.rank(oldest)

    def _keeping(self, state: Site) -> Iterator[tuple[object, int, list[Lease], View]]:
        """Everything that forgets, with the number of the first tuple that it keeps, in its view."""
        arrangements, of = state.arrangements, self._views.of
        for name in state.streams:
            for table in arrangements.local.of(name):
                if table.keys and not table._is_new:
                    yield table, table.kept_from, table.leases, of(name)
        for copy in arrangements.held.all:
            yield copy, *self._kept_by(copy)
        for owned in arrangements.owned.all:
            if isinstance(owned, CountedCopy):
                view = of(owned.spec.stream, owned.spec.filter, self._opened[state.name][owned])
                yield owned, owned.ordinals.first, owned.leases, view

    def _kept_by(self, copy: HeldCopy) -> tuple[int, list[Lease], View]:
        spec = copy.spec
        # Of a time window W' is what was asked for, also by queries that begin before it was opened.
        is_asked = isinstance(copy, ReducedHolder) and spec.axis is not ROWS_AXIS
        view = self._views.of(spec.stream, spec.filter, TICK_MIN if is_asked else self._copies.begun(copy))
        if isinstance(copy, FullHolder):
            return copy.table.kept_from if copy.table.keys else 0, copy.leases, view
        if spec.axis is not ROWS_AXIS:
            return view.rank(copy.kept_from), copy.leases, view
        return copy.kept_from, copy.leases, view

    def _needed(self, state: Site, lease: Lease, view: View) -> int | None:
        """The number in a view of the first tuple that a lease can still ask for; None if that is none of them."""
        if lease.frozen or lease.keys is None or lease.linger is not None:
            return None
        query_id = query_of(lease.query_id)
        home = self._nodes[self._specs[query_id].sink].site.homes.get(query_id)
        if home is None or home.state.ended:
            # It is over, and not all its sites have heard.
            return None
        assert lease.first_tick is not None
        done = max(lease.done, _others(lease.reach.alias, self._done(state, lease.query_id)))
        return self._needed_from(lease.reach, lease.first_tick, done, view)

    def _needed_from(self, reach: Reach, first_tick: int, done: int, view: View) -> int | None:
        if done >= TICK_END:
            return None
        done_ts, first_ts = tick_start(done, reach.tau), tick_start(first_tick, reach.tau)
        if reach.count is None:
            assert reach.length is not None
            low = -(-(done_ts * reach.scale - reach.length) // reach.scale)
            return view.rank(max(first_ts, low))
        passing = self._views.of(reach.stream, reach.filter, first_tick)
        first = max(0, passing.rank(done_ts) - reach.count)
        if first >= len(passing.tuples):
            return None
        place = passing.tuples[first].place
        return bisect_left(view.tuples, place, key=lambda item: item.place)

    def _done(self, state: Site, query_id: str) -> dict[str, int]:
        """How far the sink really is, whoever has heard of it."""
        query = query_of(query_id)
        home = self._nodes[self._specs[query].sink].site.homes.get(query)
        if home is not None and home.sink is not None:
            return dict(home.sink.frontiers)
        run = state.runs.get(query_id)
        return {} if run is None else run._done

    # -- 8, 9: what two sites must agree on ---------------------------------------------------

    def _have_met(self, site: str, peer: str) -> bool:
        """Whether two daemons are in the same session, so that neither holds anything of a life or session before."""
        if self._accounts.is_dead(site) or self._accounts.is_dead(peer):
            return False
        session = self._nodes[site].links[peer].session
        if session is None or session != self._nodes[peer].links[site].session:
            return False
        self.checks_again += not self._restarted.isdisjoint((site, peer))
        return True

    def _check_halves(self, site: str, state: Site) -> None:
        for owned in state.arrangements.owned.all:
            if not self._have_met(site, owned.peer):
                continue
            held = self._nodes[owned.peer].site.arrangements.held.get(owned.number)
            if held is None:
                coming = self._mail.between(owned.peer, site)
                if CloseCopy(owned.number) not in coming:
                    raise broken(13, f"{owned.progress.name} is kept at {site}, and there is nobody who holds it")
            elif isinstance(owned, ReducedOwner) and isinstance(held, ReducedHolder):
                self._check_bits(site, owned, held)
        for held in state.arrangements.held.all:
            owner = held.spec.owner
            # A kept join's stream is gone at its site with its query; the holder will hear of that.
            is_gone = held.spec.stream not in self._nodes[owner].site.streams
            if is_gone or not self._have_met(site, owner):
                continue
            if self._nodes[owner].site.arrangements.owned.get(site, held.number) is None:
                going = self._mail.between(site, owner)
                if not any(isinstance(message, OpenCopy) and message.copy == held.number for message in going):
                    raise broken(13, f"{held.progress.name} is held at {site}, and {owner} does not know of it")

    def _check_bits(self, site: str, owned: ReducedOwner, held: ReducedHolder) -> None:
        if self._bits.get(owned) == (owned.tuples, held.tuples):
            return
        coming = self._mail.between(site, owned.peer)
        if any(isinstance(message, TupleAnswer) and message.copy == owned.number for message in coming):
            return
        self._bits[owned] = (owned.tuples, held.tuples)
        sent, spec = self._copies.sent(owned.peer, held.name), owned.spec
        tuples = self._views.of(spec.stream).tuples
        view = self._views.of(spec.stream, spec.filter, self._copies.begun(held))
        ranks = {item.place: at for at, item in enumerate(view.tuples)}
        numbers = np.flatnonzero(owned._sent.get(np.arange(len(owned._sent)))) + owned._first
        claimed = Counter(
            (ranks[number] if spec.axis is ROWS_AXIS else tuples[number].ts, *tuples[number].row(spec.columns))
            for number in numbers.tolist()
        )
        if claimed - sent or owned.tuples != sent.total():
            missing = sorted((claimed - sent).elements())
            raise broken(8, f"{owned.progress.name} takes for sent {missing}, {owned.tuples} of {sent.total()} tuples")

    def _check_books(self, state: Site) -> None:
        for run in state.runs.values():
            for (head, step), half in [] if run._walks is None else run._walks._sources.items():
                if isinstance(half, AskingSource):
                    self._check_book(state.name, run, head, step, half)

    def _check_book(self, site: str, run: QueryRun, head: str, step: int, half: AskingSource) -> None:
        place, book, owner = (run.query_id, head, step), half._book, half._step.owner
        other = self._nodes[owner].site.runs.get(run.query_id)
        if other is None or other._walks is None or self._books.get(place) == (run.generation, book._count):
            return
        if other.generation != run.generation:
            return
        going = self._mail.between(site, owner)
        if any(isinstance(one, AskMatches) and (one.query_id, one.head, one.step) == place for one in going):
            return
        self._books[place] = run.generation, book._count
        there = other._walks._destinations[head, step]
        assert isinstance(there, FindingDestination)
        if _pages(book) != _pages(there._book):
            raise broken(9, f"books of {place} differ: {_pages(book)} at {site}, {_pages(there._book)} at {owner}")

    # -- 11: causes ---------------------------------------------------------------------------

    def _check_floor(self, site: str, state: Site) -> None:
        """10: nothing of a generation that is void here waits or asks."""
        for waiting in state.waiting():
            walk, run = waiting.walk, state.runs.get(waiting.walk.query_id)
            if run is None or run.generation != walk.generation:
                raise broken(10, f"{site} has {walk}, and runs {None if run is None else run.generation}")

    def _check_causes(self, site: str, state: Site) -> None:
        unanswerable = set(state.asking) - self._pending.get(site, set())
        if unanswerable:
            raise broken(11, f"{site} waits for answers {sorted(unanswerable)}, which its engine was not asked for")
        for copy in state.arrangements.held.all:
            owner = copy.spec.owner
            if isinstance(copy, MixedHolder) and self._have_met(site, owner):
                asking = self._nodes[owner].site.asking.values()
                arrangements = self._nodes[owner].site.arrangements
                there = arrangements.owned.get(site, copy.number)
                fetches: list[object] = [
                    *(there._answers.values() if isinstance(there, MixedOwner) else ()),
                    # They wait for a table that is being filled.
                    *(fetch for owned, _, fetch in arrangements._unsearched if owned is there),
                    *(one for one in self._mail.between(site, owner) if _is_about(one, copy, Fetch)),
                    *(one for one in asking if isinstance(one, FetchAnswer) and _is_for(one, site, copy)),
                    *(one for one in self._mail.between(owner, site) if _is_about(one, copy, Fetched)),
                ]
                if len(fetches) != len(copy._fetches):
                    raise broken(
                        11, f"{copy.progress.name} at {site} waits for {len(copy._fetches)} fetches, not {fetches}"
                    )

    # -- 13: leases ---------------------------------------------------------------------------

    def _check_leases(self, site: str, state: Site) -> None:
        arrangements = state.arrangements
        leased: list[RowTable | HeldCopy] = [*arrangements.local.all, *arrangements.held.all]
        for thing in leased:
            if not thing.leases:
                raise broken(13, f"{_name(thing)} at {site} is kept, and nobody leases it")
        every: list[RowTable | HeldCopy | OwnedCopy] = [*leased, *arrangements.owned.all]
        for arrangement in every:
            dead = [lease.query_id for lease in arrangement.leases if lease.query_id not in state.runs]
            if dead:
                raise broken(13, f"{_name(arrangement)} at {site} is leased by {dead}, which are over there")
        dead = [claim.lease.query_id for claim in arrangements.owned.claims if claim.lease.query_id not in state.runs]
        if dead:
            raise broken(13, f"{site} keeps copies for {dead}, which are over there")

    # -- 6 and 15: logs -----------------------------------------------------------------------

    def trimmed(self, site: str, stream: str, tick: int) -> None:
        """A log is cut before a tick: nothing from there on may be needed."""
        state = self._nodes[site].site
        for run, _ in _users(state, stream):
            if not run.started and not run.is_resumed:
                raise broken(15, f"{stream} is cut before {tick_text(tick)} while {run.query_id} is prepared")
        for home, alias in self._needing(stream):
            needed = self._needed_tick(home, alias)
            if needed < tick and home.query_id not in self._emptied.get(site, ()):
                raise broken(
                    15, f"{stream} is cut before {tick_text(tick)}; {home.query_id} {alias} needs {tick_text(needed)}"
                )
        own = state.streams[stream]
        # At the quota it gives way.
        is_bounded = self._nodes[site].limits.log_bytes_max < NO_QUOTA
        is_retained = own._retain and tick_start(tick, own.tau) > own._newest_ts - own._retain
        if not is_bounded and (own._keep_whole or is_retained):
            raise broken(15, f"{stream} is cut before {tick_text(tick)}, which it retains")

    def reading(self, site: str) -> None:
        """A source of a site is read: its logs may hold more then."""
        held = sum(batch.nbytes for stream in self._nodes[site].site.streams.values() for batch in stream._log)
        if held >= self._nodes[site].limits.log_bytes_max:
            raise broken(15, f"a source of {site} is read, and its logs hold {held} bytes")

    def _needing(self, stream: str) -> Iterator[tuple[HomeQuery, str]]:
        """Queries that go on, wherever their homes are, and their names for a stream."""
        for node in self._nodes.values():
            for home in node.site.homes.values():
                is_over = home.state.ended or home.first_tick is None or home.query_id in self.given_up
                is_over |= home.plan.policy.name is PolicyName.DELTA
                for ref in () if is_over else home.plan.query.streams:
                    if ref.stream.name == stream:
                        yield home, ref.alias

    def _needed_tick(self, home: HomeQuery, alias: str) -> int:
        """From where on a log must be there if the home of a query dies now."""
        assert home.first_tick is not None
        done = dict(home.kept_done)
        reach = reach_of(home.plan.query, alias, self._tau_ms)
        view = self._views.of(reach.stream)
        begin = dict(home.begins).get(alias, home.first_tick)
        number = self._needed_from(reach, begin, _others(alias, done), view)
        if number is None or number >= len(view.tuples):
            return done[alias]
        return min(done[alias], view.tuples[number].tick)

    def fed(self, site: str) -> None:
        """Streams of a site have more: that is when their logs are cut, so each begins with what is needed."""
        state = self._nodes[site].site
        for name, stream in state.streams.items():
            if self._fed.get(name) == stream.fed:
                continue
            self._fed[name] = stream.fed
            if stream._log and not self._is_kept_for(state, name, stream):
                oldest = Span(stream._log[0].first, stream._log[0].end)
                raise broken(15, f"the log of {name} at {site} keeps {oldest}, which nobody needs")

    def _is_kept_for(self, state: Site, name: str, stream: StreamState) -> bool:
        """Whether the oldest batch of a log is retained, or needed by somebody as far as the site knows."""
        oldest = stream._log[0]
        if stream._keep_whole:
            return True
        if stream._retain and tick_start(oldest.end, stream.tau) > stream._newest_ts - stream._retain:
            return True
        if state.arrangements.readers.behind(name):
            return True
        if any(claim.stream == name for claim in state.arrangements.owned.claims):
            return True
        pins = state.arrangements._pins.items()
        if any(name in pinned for query_id, pinned in pins if not _runs_of(state, query_id)):
            return True
        for run, alias in _users(state, name):
            reach = run._reaches[alias]
            if not run.started or reach.length is None:
                return True
            # At home by what is kept of that alone.
            is_home = run.plan.sink == state.name
            done = dict(state.homes[query_of(run.query_id)].kept_done) if is_home else run._done
            low = tick_start(min(done[alias], _others(alias, done)), reach.tau)
            if tick_start(oldest.end, stream.tau) > low - reach.length // reach.scale - 1:
                return True
        return False


def _runs_of(state: Site, query_id: str) -> list[QueryRun]:
    return [run for run in state.runs.values() if query_of(run.query_id) == query_id]


def _users(state: Site, stream: str) -> list[tuple[QueryRun, str]]:
    return [
        (run, alias)
        for run in state.runs.values()
        for alias in run.local_aliases
        if run.plan.query.ref(alias).stream.name == stream
    ]


def _others(alias: str, done: Mapping[str, int]) -> int:
    """No walk of a head other than ``alias`` before this tick is left."""
    return min((tick for head, tick in done.items() if head != alias), default=TICK_MIN)


def _is_about(message: Message, copy: HeldCopy, kind: type[Fetch | Fetched | Sync]) -> bool:
    return isinstance(message, kind) and message.copy == copy.number


def _is_for(asker: FetchAnswer, site: str, copy: HeldCopy) -> bool:
    return (asker.peer, asker.copy) == (site, copy.number)


def _pages(book: KeyBook) -> object:
    """What is in a book."""
    slots = book._table.live_slots()
    keys = [column.to_pylist() for column in book._table.keys(slots)]
    return book._count, slots.tolist(), keys, book._last[slots].tolist()


def _name(thing: object) -> str:
    progress = getattr(thing, "progress", None)
    return progress.name if progress is not None else type(thing).__name__
