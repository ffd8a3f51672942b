"""Seeded bugs: each is one plausible slip in the protocol, as a change of its source text.

A mutant is applied while its module is imported, in a process of its own. The text
it replaces must occur exactly once, so a mutant that no longer fits is noticed.
This module imports nothing of the system, because it must come before it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Change:
    """Replace ``old``, which occurs once in ``module``, by ``new``."""

    module: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        return ROOT / (self.module.replace(".", "/") + ".py")


@dataclass(frozen=True)
class Mutant:
    """A bug with a name. ``survives`` says why the simulator cannot see it, for those it cannot."""

    name: str
    changes: tuple[Change, ...]
    survives: str = ""


WALK, RUN, ISSUER, STACK = "node.core.walk", "node.core.query_run", "node.core.issuer", "node.stack"
WINDOW, SINK, SEALER, VIEW = "node.core.window", "node.core.sink", "node.core.sealer", "node.core.view"
PARTICIPANT = "node.core.participant"
LINK, HOME, STREAM, CODEC = "node.core.link", "node.core.home", "node.core.stream", "node.codec"
AXIS, GATE, STORED, OWNED = "node.core.axis", "node.core.gate", "node.core.stored", "node.core.owned"
PARTS, ASKING, SHIP = "node.core.parts", "node.core.algorithms.asking", "node.core.algorithms.ship"
BOOK = "node.core.keybook"
S1, S2 = "node.core.algorithms.sm_s1", "node.core.algorithms.sm_s2"
D1, D2 = "node.core.algorithms.sm_d1", "node.core.algorithms.sm_d2"
FULL, REDUCED = "node.core.replicas.full", "node.core.replicas.reduced"
KEYS, MIXED = "node.core.replicas.keys", "node.core.replicas.mixed"
GRAPH, EVALUATE, RETAINED = "planner.graph", "node.core.evaluate", "node.core.retained"
SHARING, BORROWED = "node.core.sharing", "node.core.borrowed"

RESTARTS = "rare: another query must run after a restart, over a link that was used before"
COPIES = "only bytes are wasted: there are more copies than needed"
MEMORY = "only memory grows, and no scenario measures it"
CROSSED = "rare: a fetch must cross the death of its key and the next life of its slot, or meet another walk's"
OVERTAKEN = "rare: needs streams at two sites, the sink at a third, and a Start that is overtaken (1 seed in 500)"


def mutant(name: str, module: str, old: str, new: str, survives: str = "") -> Mutant:
    return Mutant(name, (Change(module, old, new),), survives)


_DUPLICATES = Change(
    LINK,
    "            self.duplicates += 1\n            return\n",
    "            news.messages += [] if part.more else [(part.kind, Packed(part.payload, part.numbers))]\n"
    "            return\n",
)
_NO_RESUME = Change(
    LINK,
    "        while self._waiting and self._waiting[0].seq < wanted:",
    "        while False:",
)
_TAKE_ALL = Change(
    SINK,
    "        if span.end <= self.done or self._taken.get(span.first) == span.end:\n            return False\n",
    "        if span.end <= self.done or self._taken.get(span.first) == span.end:\n            return True\n",
)
_NO_CHECKSUM = 'checksum.to_bytes(_CHECKSUM_BYTES, "little") != data[-_CHECKSUM_BYTES:]'

MUTANTS: tuple[Mutant, ...] = (
    # -- which pairs are joined
    mutant("ties on both sides", WALK, "query.position(hop.alias) < query.position(head)", "True"),
    mutant("ties on neither side", WALK, "query.position(hop.alias) < query.position(head)", "False"),
    mutant(
        "ties on the wrong side",
        WALK,
        "query.position(hop.alias) < query.position(head)",
        "query.position(hop.alias) > query.position(head)",
    ),
    mutant("range one too long", STORED, "carry_keys, axis.length, ties", "carry_keys, axis.length + 1, ties"),
    mutant("range one too short", STORED, "carry_keys, axis.length, ties", "carry_keys, max(0, axis.length - 1), ties"),
    mutant("a count window counts from one", AXIS, "np.arange(first, first +", "1 + np.arange(first, first +"),
    mutant("rank without ties", AXIS, 'side = "right" if include_ties else "left"', 'side = "left"'),
    mutant("rank with all ties", AXIS, 'side = "right" if include_ties else "left"', 'side = "right"'),
    mutant("a tuple at the very rank is visible", AXIS, "RANK, False", "RANK, True"),
    # -- when a window is probed
    mutant("probe without waiting", GATE, "if high_ts < window.sealed_ts:", "if True:"),
    mutant("probe one time unit early", GATE, "if high_ts < window.sealed_ts:", "if high_ts <= window.sealed_ts:"),
    mutant(
        "probe one tick early", WINDOW, "tick_start(self.frontier, self.tau)", "tick_start(self.frontier + 1, self.tau)"
    ),
    mutant("only the first parked walk is released", WINDOW, "while self._parked and", "if self._parked and"),
    mutant(
        "all parked walks are released", WINDOW, "self._parked and self._parked[0][0] < self.sealed_ts", "self._parked"
    ),
    mutant(
        "walks go on before the sync is sent",
        OWNED,
        """        for replica in self.replicas:
            replica.on_batch(span, rows, first, times)
        state.release()
""",
        """        state.release()
        for replica in self.replicas:
            replica.on_batch(span, rows, first, times)
""",
        "equivalent: engines answer in a later turn, so what a walk leads to never overtakes the sync",
    ),
    # -- what a window forgets
    mutant("expire one tick early", GATE, "else tick_start(done, window.tau)", "else tick_start(done + 1, window.tau)"),
    mutant("expire one time unit early", AXIS, "else ts - self.length", "else ts - self.length + 1"),
    mutant("expire without the window's length", AXIS, "else ts - self.length", "else ts"),
    mutant(
        "expire one tuple early",
        AXIS,
        "self.ordinals.rank_one(ts) - self.length",
        "self.ordinals.rank_one(ts) - self.length + 1",
    ),
    mutant("expire by the window's own head", PARTS, "if head != alias)", "if head == alias)"),
    mutant("expire by the fastest head", PARTS, "return min((tick", "return max((tick"),
    mutant("never expire", GATE, "None if done <= TICK_MIN", "None if done < TICK_END", MEMORY),
    mutant(
        "times are forgotten too early",
        AXIS,
        "forget_before(self.ordinals.rank_one(ts))",
        "forget_before(self.ordinals.rank_one(ts + 1))",
    ),
    # -- V and M
    mutant(
        "a key dies with its first tuple", KEYS, "slots[self._counts[slots] == 0]", "slots[self._counts[slots] >= 0]"
    ),
    mutant("a key never dies", KEYS, "dead: I64 = slots[self._counts[slots] == 0]", "dead: I64 = slots[:0]"),
    mutant("a key is counted once per batch", KEYS, "np.bincount(inverse[inverse >= 0], minlength=len(rows))", "1"),
    mutant(
        "births are not sent",
        KEYS,
        "self._send(encode_rows(take_batch(rows.select(self._shape.keys), born)), self._dead())",
        'self._send(b"", self._dead())',
    ),
    mutant(
        "V is used before its sync",
        KEYS,
        "enter(self.state, *walk.times, step.include_ties",
        "enter(self.state, 0, -(2**62), step.include_ties",
    ),
    mutant(
        "rows without a match are shipped",
        D1,
        "keys_of(walk.rows)) >= 0)",
        "keys_of(walk.rows)) >= -1)",
        "only bytes are wasted: the join at the stream's site finds nothing for them",
    ),
    mutant("rows with a match are not shipped", D1, "keys_of(walk.rows)) >= 0)", "keys_of(walk.rows)) > 0)"),
    mutant(
        "new tuples of full keys are not sent", MIXED, "full = full[self._sent.get(slots[full])]", "full = full[:0]"
    ),
    mutant("new tuples of all keys are sent", MIXED, "full = full[self._sent.get(slots[full])]", "full = full"),
    mutant("a key in a new life is still full at the owner", MIXED, "        self._sent.clear(dead)\n", ""),
    mutant("a key in a new life is still full at the holder", MIXED, "        self._full.clear(dead)\n", ""),
    mutant("a key in a new life was asked for", MIXED, "        self._asked[dead] = 0\n", ""),
    mutant(
        "a fetch that crossed a sync is taken as it is",
        MIXED,
        "slots[table.is_live(slots) & (self._born_at[slots] <= seen)]",
        "slots[table.is_live(slots)]",
        CROSSED,
    ),
    mutant(
        "an answer that crossed a sync is taken as it is",
        MIXED,
        "slots[self.table.is_live(slots) & (self._born_at[slots] <= seen)]",
        "slots[self.table.is_live(slots)]",
        CROSSED,
    ),
    mutant(
        "keys are full when they are asked for",
        MIXED,
        "            self._asked[unasked] = self._fetch_count\n",
        "            self._asked[unasked] = self._fetch_count\n            self._full.set(unasked)\n",
    ),
    mutant(
        "nobody waits for another's fetch",
        MIXED,
        "(int(self._asked[wanted].max()), then)",
        "(self._fetch_count if len(unasked) else 0, then)",
        CROSSED,
    ),
    mutant("M keeps what its window forgot", MIXED, "        self.window.expire(message.before)\n", "", MEMORY),
    mutant(
        "rows whose keys are here in part are not joined",
        S2,
        "temp = np.flatnonzero((slots >= 0) & ~full)",
        "temp = np.flatnonzero((slots >= 0) & ~full)[:0]",
    ),
    mutant(
        "rows whose keys are full are not joined", S2, "now = np.flatnonzero(full)", "now = np.flatnonzero(full)[:0]"
    ),
    # -- W' and questions
    mutant(
        "every match is shipped again",
        REDUCED,
        "fresh = ~self._sent.get(places)",
        "fresh = self._sent.get(places) | True",
    ),
    mutant(
        "the bits of tuples are those of their neighbours",
        REDUCED,
        "places = numbers - self._first",
        "places = (numbers - self._first - 1).clip(0)",
    ),
    mutant(
        "bits are dropped one too many",
        REDUCED,
        "        self._first = first\n",
        "        self._first = first + (first > 0)\n",
    ),
    mutant(
        "bits are never dropped",
        REDUCED,
        "first = min([self._first_live, *list(self._looking)[:1]])",
        "first = 0",
        MEMORY,
    ),
    mutant(
        "what was shipped is not kept",
        S1,
        "        self._replica.take(rows)\n",
        "        self._replica.take(rows.slice(0, 0))\n",
    ),
    mutant(
        "only the newest rows' matches are looked for",
        ASKING,
        "visible(message.low_ts, message.high_ts",
        "visible(message.high_ts, message.high_ts",
    ),
    mutant(
        "only the oldest rows' matches are looked for",
        ASKING,
        "visible(message.low_ts, message.high_ts",
        "visible(message.low_ts, message.low_ts",
    ),
    mutant(
        "questions are answered before the window is sealed",
        ASKING,
        "window.state, message.low_ts, message.high_ts",
        "window.state, message.low_ts, -(2**62)",
    ),
    mutant(
        "known keys are not put first",
        ASKING,
        "return np.lexsort((numbers, new)), len",
        "return np.argsort(~new, kind='stable'), len",
    ),
    mutant(
        "rows go by the order of keys before they were numbered",
        ASKING,
        "np.argsort(order)[key_of])",
        "key_of)",
    ),
    mutant(
        "a key is crossed out though it was asked about again", BOOK, "oldest[self._last[oldest] == number]", "oldest"
    ),
    mutant(
        "the bitmap is one off",
        D2,
        "bits[rows.column(KEY).to_numpy()] = True",
        "bits[rows.column(KEY).to_numpy() - 1] = True",
    ),
    mutant(
        "a key that matches once is enough for all",
        D2,
        "np.flatnonzero(bits[asked.key_of])",
        "np.flatnonzero(bits[asked.key_of] | True)",
        "only bytes are wasted: Temp has nothing for the other rows",
    ),
    mutant(
        "walks without a match are not ended",
        D2,
        "            self._desk.advance(walk_of(message, empty_batch(self._step.carry_schema)))\n",
        "",
    ),
    mutant("walks that ended elsewhere are remembered", ASKING, "if asked.walk.span.end <= tick]", "if False]", MEMORY),
    # -- what is done
    mutant(
        "done is the newest, not the contiguous",
        SINK,
        """        while self.done in self._stored:
            first = self.done
            self.done = self._stored.pop(first)
            del self._taken[first]
""",
        "        self.done = max(self.done, span.end)\n",
    ),
    mutant(
        "done when taken, not when stored",
        ISSUER,
        "            self._outbox.do(StoreRows(query_id, walk.head, walk.span, walk.sealed_at_us, walk.rows))\n",
        "            self._outbox.do(StoreRows(query_id, walk.head, walk.span, walk.sealed_at_us, walk.rows))\n"
        "            self._stored(home, RowsStored(query_id, walk.head, walk.span))\n",
        "the simulated store never fails and no daemon dies between taking and storing",
    ),
    mutant(
        "ended queries are remembered for ever",
        ISSUER,
        "while len(self._ended) > self._limits.ended_queries_max:",
        "while False:",
        MEMORY,
    ),
    mutant(
        "questions of ended queries are remembered",
        PARTICIPANT,
        "            del self.asking[op_id]\n",
        "            pass\n",
    ),
    mutant("complete when one head is", SINK, "return all(ledger", "return any(ledger"),
    Mutant(
        "the sink stores repeated walks", (_TAKE_ALL,), "links repeat nothing; a walk is run again only after a restart"
    ),
    Mutant("the sink stores repeated walks and links repeat them", (_TAKE_ALL, _DUPLICATES, _NO_RESUME)),
    # -- the link
    Mutant("link delivers duplicates", (_DUPLICATES, _NO_RESUME)),
    Mutant(
        "link delivers duplicates, but resumes where it was",
        (_DUPLICATES,),
        "equivalent: a sender that resumes from Hello repeats nothing, the check is a second line of defence",
    ),
    Mutant("link repeats what the peer has", (_NO_RESUME,)),
    mutant(
        "link accepts a gap",
        LINK,
        '            raise PeerProtocolError(f"link requires part {self._expects} next; got {part.seq}")\n',
        "            self._expects = part.seq\n",
        "whatever swallows frames ends with a new connection, so no receiver ever sees a gap",
    ),
    mutant(
        "link loses what flew when it is cut",
        LINK,
        "        self._waiting.extendleft(reversed(self._flying))\n        self._waiting_bytes += self._flying_bytes\n",
        "",
    ),
    mutant(
        "link puts what flew behind what waits",
        LINK,
        "self._waiting.extendleft(reversed(self._flying))",
        "self._waiting.extend(self._flying)",
    ),
    mutant(
        "link acknowledges one too far", LINK, "        return self._expects\n", "        return self._expects + 1\n"
    ),
    mutant(
        "link greets one too far",
        LINK,
        "            self._peer_session,\n            self._expects,\n",
        "            self._peer_session,\n            self._expects + 1,\n",
    ),
    mutant("link repeats nothing", LINK, "self._forget_before(wanted)", "self._forget_before(self._seq_next)"),
    mutant(
        "link acknowledges only with messages",
        LINK,
        "now_us >= self._ack_due_us",
        "False",
        "equivalent but for memory: ack_bytes is below what may fly, so a sender that is full is acknowledged",
    ),
    mutant("link delivers parts as messages", LINK, "if not part.more:", "if True:"),
    mutant(
        "link forgets half a message when cut",
        LINK,
        "        self._unacked_bytes = 0\n\n    # -- sending",
        "        self._unacked_bytes = 0\n        self._parts = []\n\n    # -- sending",
    ),
    mutant(
        "link sends without bound",
        LINK,
        "while self._waiting and self._flying_bytes < self._limits.inflight_bytes_max:",
        "while self._waiting:",
        MEMORY,
    ),
    mutant("damaged frames are taken", CODEC, _NO_CHECKSUM, "False"),
    mutant(
        "link does not notice silence",
        LINK,
        "now_us - self._heard_at_us > self._limits.silence_us",
        "False",
        "silent faults heal, with a new connection, before silence is noticed",
    ),
    mutant(
        "link counts on with a restarted peer",
        LINK,
        "        self._peer_session = session\n        self._expects = 1\n",
        "        self._peer_session = session\n",
        RESTARTS,
    ),
    mutant(
        "link resumes a restarted peer",
        LINK,
        "            self._waiting.clear()\n            self._waiting_bytes = 0\n            self._seq_next = 1\n",
        "            pass\n",
        RESTARTS,
    ),
    mutant(
        "link does not say that the peer was restarted",
        LINK,
        "news.peer_restarted = self._peer_session != 0",
        "pass",
        RESTARTS,
    ),
    # -- the stack
    mutant(
        "frames of an old connection are heard",
        STACK,
        "        if connection is None or connection.number != item.connection:\n            return\n",
        "        if connection is None:\n            return\n",
        "the simulated network drops them itself",
    ),
    mutant(
        "the end of an old connection ends the new one",
        STACK,
        "if connection is not None and connection.number == item.connection:",
        "if connection is not None:",
    ),
    # -- the start
    mutant(
        "tuples before the start are dropped",
        RUN,
        "            self._early_messages.append(message)\n",
        "            pass\n",
        OVERTAKEN,
    ),
    mutant(
        "batches before the start are dropped",
        RUN,
        "            self._early.append((alias, batch, now_us))\n",
        "",
    ),
    mutant("start at the earliest frontier", HOME, "max(self._first_tick, answer.earliest)", "self._first_tick"),
    mutant(
        "start when the first site is ready",
        HOME,
        "        if self._waiting:\n            return None\n",
        "",
        OVERTAKEN,
    ),
    mutant(
        "view not trimmed to the start",
        VIEW,
        'int(np.searchsorted(batch.ts, self._start_ts, side="left"))',
        "0",
    ),
    # -- walks
    mutant(
        "carry to the wrong step",
        SHIP,
        "walk.span, walk.step, walk.sealed_at_us, rows)",
        "walk.span, walk.step + 1, walk.sealed_at_us, rows)",
    ),
    mutant(
        "empty walks are not reported",
        RUN,
        "        if walk.rows.num_rows == 0 or walk.step == len(steps):\n",
        "        if walk.rows.num_rows == 0:\n            return\n        if walk.step == len(steps):\n",
    ),
    mutant(
        "no heartbeat for empty batches",
        FULL,
        "        self.frontier = span.end\n",
        "        if not rows.num_rows:\n            return\n        self.frontier = span.end\n",
    ),
    mutant(
        "batches are not put into windows",
        STORED,
        "            self.append(self.state.axis.positions(rows, first))\n",
        "            pass\n",
    ),
    mutant("rows with a null key go on", RUN, "return walk if mask is None else", "return walk if True else"),
    # -- sealing
    mutant("late rows kept", SEALER, "if late.any():", "if False:"),
    mutant(
        "late by the newest of its chunk",
        SEALER,
        "np.maximum.accumulate(times[:-1], out=newest_before[1:])",
        "newest_before[1:] = times.max()",
    ),
    mutant("lateness ignored", SEALER, "(newest_before - self._lateness)", "newest_before"),
    mutant(
        "sealed one tick early",
        SEALER,
        "marks.append((self._newest - self._lateness) // self._tau)",
        "marks.append((self._newest - self._lateness) // self._tau + 1)",
    ),
    mutant("sealed by the end of the chunk", SEALER, 'side="left"))\n        rest', 'side="right"))\n        rest'),
    mutant("batches not sorted", SEALER, "if len(times) > 1 and (times[1:] < times[:-1]).any():", "if False:"),
    mutant(
        "ties not in order of arrival",
        SEALER,
        'order = np.argsort(times, kind="stable")',
        "order = np.lexsort((-np.arange(len(times)), times))",
    ),
    mutant(
        "watermarks one tick early",
        SEALER,
        "marks.append(watermark // self._tau)",
        "marks.append(watermark // self._tau + 1)",
        "simulated sources give no watermarks",
    ),
    # -- queries over many streams
    mutant(
        "residuals are never asked",
        GRAPH,
        "others += [expr for expr in query.residuals if _due(expr, alias, joined)]",
        "pass",
    ),
    mutant(
        "a residual is asked before all its streams are there",
        GRAPH,
        "return alias in aliases and all(other == alias",
        "return alias in aliases and any(other == alias",
    ),
    mutant(
        "a residual is asked at the last step only", GRAPH, "return alias in aliases and", "return len(before) > 2 and"
    ),
    mutant(
        "a step uses one equality only", GRAPH, "keys = sorted(pairs, key=str)", "keys = sorted(pairs, key=str)[:1]"
    ),
    mutant(
        "a column equals the first of its partners only",
        GRAPH,
        "for other in partners[1:]]",
        "for other in partners[1:] if False]",
    ),
    mutant(
        "keys in the order of the carry's names",
        GRAPH,
        "keys = sorted(pairs, key=str)",
        "keys = sorted(pairs, key=lambda own: str(pairs[own]))",
        COPIES,
    ),
    mutant(
        "carry keys and window keys in different orders",
        GRAPH,
        "Link(tuple(pairs[own] for own in keys), tuple(keys)",
        "Link(tuple(pairs[own] for own in keys), tuple(reversed(keys))",
    ),
    mutant(
        "columns count as equal before they are",
        GRAPH,
        "_classes([edge for edge in query.edges if _within(edge, inside)], order)",
        "_classes([edge for edge in query.edges if _within(edge, (*inside, *outside))], order)",
    ),
    mutant(
        "what later keys need is dropped",
        GRAPH,
        "        wanted |= dict.fromkeys(partners)\n",
        "        wanted |= dict.fromkeys(partners[:0])\n",
    ),
    mutant(
        "only the first of the later keys is kept",
        GRAPH,
        "        wanted |= dict.fromkeys(partners)\n",
        "        wanted |= dict.fromkeys(partners[:1])\n",
        "rare: two columns of one stream must equal the same one of a stream that is joined third or later",
    ),
    mutant(
        "what residuals need is dropped",
        GRAPH,
        "        if any(column.alias in rest for column in columns):\n",
        "        if False:\n",
    ),
    mutant(
        "equalities do not follow from one another", GRAPH, "    return tuple(known)\n", "    return tuple(given)\n"
    ),
    mutant(
        "a step's residual is that of the step before",
        WALK,
        "carry, window, ties, link.residual, answer))",
        "carry, window, ties, shapes[-1].residual if shapes else None, answer))",
    ),
    mutant(
        "a step's columns are those needed before it",
        WALK,
        "wanted = {str(column) for column in needed_after(query, joined)}",
        "wanted = {str(column) for column in needed_after(query, joined[:-1])}",
    ),
    mutant("the carry stays where it started", WALK, "        source = hop.site\n", "        pass\n"),
    mutant(
        "every walk starts at home",
        WALK,
        "    source = start_of(plan, head)\n",
        "    source = plan.query.ref(head).stream.site\n",
    ),
    mutant(
        "no copy for walks that start elsewhere",
        WALK,
        "        if start != owner:\n",
        "        if False:\n",
    ),
    mutant(
        "a walk starts at home and elsewhere",
        RUN,
        "if self.shape.starts[alias] == self._site and not self.lingering:",
        "if not self.lingering:",
    ),
    mutant(
        "a batch for a copy starts no walk",
        RUN,
        "        if self.shape.starts[message.alias] == self._site:\n",
        "        if False:\n",
    ),
    mutant(
        "heads share copies by other keys",
        WALK,
        "(kind is ReplicaKind.FULL or step.window_keys == replica.keys)",
        "True",
        "rare: walks of two heads at one site must look into one stream by different keys with the same kind of copy",
    ),
    mutant(
        "heads share no copies",
        WALK,
        "and not any(_uses(step, replica) for replica in found):",
        "and True:",
        COPIES,
    ),
    mutant(
        "heads share copies at other sites",
        WALK,
        "(kind, step.hop.alias, step.source) == (replica.kind, replica.alias, replica.holder)",
        "(kind, step.hop.alias) == (replica.kind, replica.alias)",
    ),
    mutant("filters are not applied", VIEW, "if self._where is not None and tuples.num_rows:", "if False:"),
    mutant("null passes a filter or a residual", EVALUATE, ".fill_null(False)", ".fill_null(True)"),
    mutant(
        "a count window counts what its filter drops",
        VIEW,
        "            ts, tuples = ts[passed], take_batch(tuples.select(self._names), passed)\n",
        "            nulls = np.where(holds(self._where, named), np.arange(len(ts)), -1)\n"
        "            tuples = tuples.select(self._names).take(pa.array(nulls, mask=nulls < 0))\n",
    ),
    # -- what streams retain
    mutant(
        "too little is retained",
        RETAINED,
        "<= self._newest_ts - self._retain",
        "<= self._newest_ts - self._retain // 2",
    ),
    mutant(
        "more is promised than was retained",
        RETAINED,
        "return self._batches[0][0].span.first if self._batches else frontier",
        "return self._batches[0][0].span.first - 1 if self._batches else frontier",
    ),
    mutant("the end of a stream lets nothing go", RETAINED, "elif len(batch.ts):", "elif False:", MEMORY),
    # -- copies that queries share
    mutant(
        "a shared copy forgets when its own query is done",
        SHARING,
        "        return min(ticks)\n",
        "        return TICK_END\n",
    ),
    mutant(
        "a borrower sees what was before its start", BORROWED, "        return self._lowest\n", "        return None\n"
    ),
    mutant(
        "a full copy is shared that is past the start",
        PARTS,
        "return self.full_owners[number].frontier <= tick",
        "return True",
    ),
    mutant("a copy is shared that is past the start", PARTS, "return state.frontier <= tick and", "return"),
    mutant(
        "a shared copy ends with its own query",
        SHARING,
        "        if self._users.get(place):\n            return True\n",
        "",
    ),
    mutant("streams with different filters share a copy", SHARING, "view = repr(ref.where), ", 'view = "", '),
    mutant("streams with different windows share a copy", SHARING, "view, ref.window, query.unit", "view, query.unit"),
    mutant("streams with different columns share a copy", SHARING, "str(view_schema(query, replica.alias))", '""'),
    # -- look-ahead
    mutant(
        "look-ahead never resumes", RUN, "                self.backlogs[head].done(tick)\n", "                pass\n"
    ),
    mutant(
        "look-ahead without bound",
        STREAM,
        "not any(backlog.full(limits) for backlog in running)",
        "True",
        MEMORY,
    ),
)


def named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def patched(changes: Sequence[Change]) -> str:
    """The source of one module with these changes; AssertionError if one does not fit."""
    source = changes[0].path.read_text()
    for change in changes:
        count = source.count(change.old)
        assert count == 1, f"{change.module}: required once, found {count} times: {change.old!r}"
        source = source.replace(change.old, change.new)
    return source


def install(mutant: Mutant) -> None:
    """From now on the mutant's modules are imported with its bug."""
    modules = {change.module for change in mutant.changes}
    loaded = sorted(modules & set(sys.modules))
    assert not loaded, f"a mutant requires modules that are not imported yet; got {loaded}"
    sources = {name: patched([change for change in mutant.changes if change.module == name]) for name in modules}
    sys.meta_path.insert(0, _Finder(sources))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._sources:
            return None
        location = str(ROOT / (fullname.replace(".", "/") + ".py"))
        loader = _Loader(fullname, location, self._sources[fullname])
        return importlib.util.spec_from_file_location(fullname, location, loader=loader)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, location: str, source: str) -> None:
        super().__init__(fullname, location)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec")
