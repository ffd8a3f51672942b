"""What two sites say to each other, as values. Rows travel encoded: see ``rows.py``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from node.core.errors import PeerProtocolError
from node.core.streams.ticks import Span
from planner.estimate.statistics import StreamProfile
from planner.model.beginning import DEFAULT_BEGINNING, Beginning
from planner.model.copies import RunningCopy
from planner.model.query import FRONTIER_POLICY, KeptJoin, Policy, Sequence, StreamInfo

#: What a query begins with. Later ones are numbered by their home, rising over its lives.
FIRST_GENERATION = 0
#: Of a site that has voided a generation and is not prepared for another: later than any.
NO_GENERATION = 2**62


#: Of heads or aliases: a tick for each.
Ticks = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class AskProfile:
    """Home asks what a site knows of its streams, as a query sees them that is not installed yet, or that runs.

    ``query_id`` is that of the question.
    """

    query_id: str
    text: str
    streams: tuple[StreamInfo, ...]
    #: The query that runs; then what was counted of it is asked too.
    running: str = ""
    #: Nothing else is asked: to measure streams costs more.
    counts_only: bool = False
    #: Streams are measured by so much of their past, in event time; 0: by all that is at hand.
    past_us: int = 0


@dataclass(frozen=True, slots=True)
class LinkSeen:
    """The way from the site that says so to ``peer``, as far as it was measured."""

    peer: str
    rtt_us: int | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class RunningCounts:
    """What a site has counted of a query that runs, since it knows of it. Only differences of two answers say much."""

    #: By peer, bytes that left for it.
    sent: tuple[tuple[str, int], ...] = ()
    #: By alias, what shipping all its tuples to the sink would have sent; and up to which tick that is.
    ship_all: tuple[tuple[str, int], ...] = ()
    frontiers: Ticks = ()
    #: Copies of its streams that other queries use too, as far as these need them.
    shared: tuple[RunningCopy, ...] = ()
    #: Sites that it cannot reach now.
    unreached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profiles:
    """Answers AskProfile: what was measured, by alias, and why the others could not be. Refused is an answer too."""

    query_id: str
    profiles: tuple[tuple[str, StreamProfile], ...]
    missing: tuple[tuple[str, str], ...] = ()
    links: tuple[LinkSeen, ...] = ()
    #: Copies of its streams of the query that run.
    copies: tuple[RunningCopy, ...] = ()
    #: If it was asked of a query that runs.
    counts: RunningCounts | None = None
    #: What the logs hold of joins that it keeps.
    kept_bytes: int = 0


def require_ticks(who: str, what: str, ticks: Ticks, names: Collection[str]) -> None:
    """Raises PeerProtocolError unless there is a tick for each name."""
    missing = [name for name in names if name not in dict(ticks)]
    if missing:
        raise PeerProtocolError(f"{who} requires {what} of {', '.join(names)}; got none of {', '.join(missing)}")


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where a query stood when a new generation of it began: its rows begin with ``first_tick``, and it is done so far.

    The walks of each head begin with its done frontier.
    """

    first_tick: int
    #: By head. Nothing: it has not begun, and is to, with ``first_tick`` or a later one; how far back its streams are
    #: there, as its windows show them then, is for its sites to say.
    done: Ticks
    #: Rows may be stored of every tick of a head before this one, so results were found with all streams up to it.
    stored_to: int
    #: It waits for a site that is away, and may for long: it holds nothing meanwhile, and shares nothing at first.
    is_alone: bool = False
    #: By alias, from which tick on it sees a stream, where that is not its first tick.
    begins: Ticks = ()
    #: What ran is another plan with other heads. This one's own walks, or those of the query that reads this kept join,
    #: begin with this tick or later; and what they see is in the logs for what runs. None: it is the same plan.
    since: int | None = None
    #: Walks of its heads began with this tick, all before is another plan's: streams may not have got so far.
    #: None: they began with the query.
    walks_from: int | None = None

    @property
    def is_begun(self) -> bool:
        """Whether it ran before."""
        return bool(self.done)

    def begin_of(self, alias: str) -> int:
        """It sees a stream from this tick on."""
        return dict(self.begins).get(alias, self.first_tick)

    def done_of(self, heads: Iterable[str]) -> dict[str, int]:
        """By head, where its walks begin."""
        return dict(self.done) if self.is_begun else dict.fromkeys(heads, self.first_tick)


@dataclass(frozen=True, slots=True)
class Prepare:
    """Home asks a site to get ready for a query; nothing flows before Start.

    A generation that is not the first one voids what there is of those before.
    """

    query_id: str
    text: str
    sink: str
    sequences: tuple[Sequence, ...]
    streams: tuple[StreamInfo, ...]
    policy: Policy = FRONTIER_POLICY
    generation: int = FIRST_GENERATION
    #: None: the query has never run.
    resumed: Resumption | None = None
    #: Where it is to begin, if it has never run.
    beginning: Beginning = DEFAULT_BEGINNING
    #: The joins that are kept for it: it is about the query that has them as streams. Or, if ``part`` says so, about
    #: the one of that name itself. ``text`` and ``streams`` are the whole query's.
    kept: tuple[KeptJoin, ...] = ()
    part: str = ""
    #: After what the streams of these joins are called; empty: after the query.
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The site is ready; ``earliest`` is the first tick from which on it has everything of its streams."""

    query_id: str
    earliest: int
    #: Event time (milliseconds) of the first tuple of its streams that have not started, to align replays.
    origin_ms: int | None
    #: Round trips (microseconds) that the site has measured to others: home derives delta from them.
    rtt_us: tuple[tuple[str, int], ...] = ()
    #: By alias, how far the site's streams were sealed: from there on it forgets nothing that the query may want.
    frontiers: Ticks = ()
    generation: int = FIRST_GENERATION
    #: By alias: from where on its site has its stream, no earlier than was asked for; of a query that is resumed, as
    #: far as walks that are not done can see it.
    begins: Ticks = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The site cannot take part, and why."""

    query_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Start:
    """All sites are ready: the query is about the tuples from this tick on."""

    query_id: str
    tick: int
    origin_ms: int | None
    #: What the ``delta`` policy goes by; 0 under ``frontier``.
    delta_us: int = 0
    #: By alias, how far the streams were sealed when their sites were prepared.
    frontiers: Ticks = ()
    generation: int = FIRST_GENERATION
    #: None: the query has never run, and everything of it begins with ``tick``.
    resumed: Resumed | None = None

    def check(self, aliases: Collection[str], is_resumed: bool) -> None:
        """Raises PeerProtocolError unless it is the start of a query of these streams that ran before, or did not."""
        who = f"the start of query {self.query_id}"
        if is_resumed != (self.resumed is not None):
            required, got = ("what is done", "nothing") if is_resumed else ("nothing that is done", "some")
            raise PeerProtocolError(f"{who} requires {required}, as it was prepared; got {got}")
        if self.resumed is not None:
            require_ticks(who, "what is done", self.resumed.done, aliases)
            require_ticks(who, "begins", self.resumed.begins, aliases)
            odd = [head for head, _ in self.resumed.islands if head not in aliases]
            if odd:
                raise PeerProtocolError(f"{who} requires islands of {', '.join(aliases)}; got {', '.join(odd)}")

    def begin_of(self, alias: str) -> int:
        """The query has tuples of a stream from this tick on, as far as walks from now on can see them."""
        return self.tick if self.resumed is None else dict(self.resumed.begins)[alias]

    def first_walk_of(self, head: str) -> int:
        """The tick with which the walks of a head begin."""
        return self.tick if self.resumed is None else dict(self.resumed.done)[head]


@dataclass(frozen=True, slots=True)
class Resumed:
    """With what a query that ran before goes on."""

    #: By head, where its walks begin.
    done: Ticks
    #: By alias, from where on tuples are there.
    begins: Ticks
    #: By head, the spans beyond that which are stored, or being stored: no walk has any of their ticks.
    islands: tuple[tuple[str, Span], ...] = ()


@dataclass(frozen=True, slots=True)
class Fence:
    """A site is ready for a generation: what it says of the query after this belongs to that, all before is void.

    ``NO_GENERATION``: it has lost what it knew, and says nothing of the query after this.
    """

    query_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Lost:
    """What a site knew of a generation is gone, and why: home begins another."""

    query_id: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Returned:
    """A site, back from the dead or meeting a home that is, still keeps what this query of yours may need.

    Home has it dropped if the query is over. If not, it hears of the loss from its own link, or from another site.
    """

    query_id: str


@dataclass(frozen=True, slots=True)
class Ready:
    """A site has all that a generation needs which takes over from the one that runs: heads could walk with it now."""

    query_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """A site tells the home of a query that goes by the clock what it has measured to others since it last did."""

    query_id: str
    rtt_us: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """Home tells the sites of such a query what to go by from now on."""

    query_id: str
    delta_us: int


@dataclass(frozen=True, slots=True)
class Switch:
    """Every site is ready: the heads of your streams go over to a generation, each from where its stream is now."""

    query_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Cut:
    """From the head's own site: its walks from a tick on are those of a generation, earlier ones of those before.

    It is said before anything of that tick is.
    """

    query_id: str
    generation: int
    head: str
    tick: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Every site is ready for a generation with other heads: what comes of your streams from now on waits."""

    query_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Held:
    """From the site of a stream that a plan before or after has: no walk of it was begun from this tick on.

    It is said before anything of that tick is.
    """

    query_id: str
    generation: int
    stream: str
    tick: int


@dataclass(frozen=True, slots=True)
class GoOver:
    """All streams are held: walks from a tick on are those of a generation, all earlier ones those of the plan before.

    The tick is the highest of those from which streams are held: so nothing of it has been walked by any plan.
    """

    query_id: str
    generation: int
    tick: int


@dataclass(frozen=True, slots=True)
class Floor:
    """All walks of the generations before this one are done: they are over, and the query goes on with this alone."""

    query_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget the query; or a generation that was to take over, if it is one's name."""

    query_id: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A site cannot go on with a query; home ends it everywhere."""

    query_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class OpenCopy:
    """From holder to owner: keep me a copy, number ``copy``, of what ``spec`` says, from ``tick`` on.

    It is for what the query needs as its need number ``need``. What is to be kept does not depend on the query: others
    may use the copy too, and may outlive it.
    """

    query_id: str
    copy: int
    need: int
    tick: int
    spec: RunningCopy


@dataclass(frozen=True, slots=True)
class LeaseCopy:
    """From holder to owner: the query uses, for its need number ``need``, a copy that is there already."""

    query_id: str
    copy: int
    need: int


@dataclass(frozen=True, slots=True)
class CloseCopy:
    """From holder to owner: nobody uses this copy any more."""

    copy: int


@dataclass(frozen=True, slots=True)
class Level:
    """From owner to holder: with all that was sent before this, a copy is as far as its stream."""

    copy: int


@dataclass(frozen=True, slots=True)
class SetPortion:
    """From owner to holder: from the next Sync on a full copy has the columns of ``spec`` for what passes its filter.

    ``portion`` is the number of that filter in the copy. Other columns than before, if it is known already.
    """

    copy: int
    portion: int
    spec: RunningCopy


@dataclass(frozen=True, slots=True)
class DropPortion:
    """From owner to holder: from the next Sync on a full copy does not have this portion any more."""

    copy: int
    portion: int


@dataclass(frozen=True, slots=True)
class Sync:
    """From owner to holder: what happened to a copy's view since the last one. A heartbeat if nothing did.

    The copy is now sealed up to ``frontier``, and what is before the position ``before`` is gone. Keys are born first
    (v_J), then die (v_C, as a delta: slots whose count fell to zero). ``rows`` has the new tuples: all of them for
    a full copy, those of keys that were asked for (s_F) for M.
    """

    copy: int
    frontier: int
    before: int
    #: Full copies only, because walks may start there: when the batch was sealed.
    sealed_at_us: int
    #: Count windows only: event times of all new tuples, so that the holder can number them.
    times: bytes
    born: bytes
    dead: bytes
    rows: bytes


@dataclass(frozen=True, slots=True)
class Carry:
    """SP-D, SM-D1, SM-D2: a walk moves to the receiver, which does step number ``step``."""

    query_id: str
    head: str
    span: Span
    step: int
    sealed_at_us: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class AskMatches:
    """SM-S1, SM-D2: the distinct keys of a walk. Which of them have matches, or what are they?

    ``low_ts`` and ``high_ts`` are the event times of the walk's oldest and newest row. Keys that were
    asked about lately are ``known``, by their numbers (``keybook.py``); they come before the others.
    """

    query_id: str
    head: str
    span: Span
    step: int
    sealed_at_us: int
    low_ts: int
    high_ts: int
    #: SM-S1: the copy that the tuples are for; 0 for SM-D2.
    copy: int
    keys: bytes
    known: bytes = b""


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """SM-D2: one bit for each key asked about, in their order, first bit in the highest place of the first byte."""

    query_id: str
    head: str
    span: Span
    step: int
    matches: bytes


@dataclass(frozen=True, slots=True)
class TupleAnswer:
    """SM-S1: the matching tuples that the receiver does not have yet.

    It has two addresses: the tuples are for the copy, whatever became of the walk that goes on with them.
    """

    query_id: str
    head: str
    span: Span
    step: int
    copy: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Fetch:
    """SM-S2: all tuples of these keys, named by their slots as they were after ``seen`` syncs."""

    copy: int
    seen: int
    slots: bytes


@dataclass(frozen=True, slots=True)
class Fetched:
    """SM-S2: answers one Fetch; answers come in the order of the questions."""

    copy: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Rows:
    """A walk has ended; its result rows, none if ``rows`` is empty, for the sink."""

    query_id: str
    head: str
    span: Span
    sealed_at_us: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The sink has stored every row of these heads before these ticks."""

    query_id: str
    frontiers: Ticks
    #: Of a join that is kept: it has every row before these ticks, and those who read it do not hold it back. So
    #: sources need not wait; nothing may be forgotten because of it.
    taken: Ticks = ()


#: Messages about a query: they name it.
QueryMessage = (
    AskProfile
    | Profiles
    | Prepare
    | Prepared
    | Refused
    | Start
    | Fence
    | Lost
    | Returned
    | Ready
    | RoundTrips
    | Delta
    | Switch
    | Cut
    | Hold
    | Held
    | GoOver
    | Floor
    | Drop
    | Failed
    | OpenCopy
    | LeaseCopy
    | Carry
    | AskMatches
    | KeyAnswer
    | TupleAnswer
    | Rows
    | Done
)
#: Messages about a copy, whichever queries use it: from its owner, and from its holder.
OwnerMessage = Level | SetPortion | DropPortion | Sync | Fetched
HolderMessage = CloseCopy | Fetch
CopyMessage = OwnerMessage | HolderMessage
Message = QueryMessage | CopyMessage
#: Messages of a query's steps, from one half to the other.
StepMessage = Carry | AskMatches | KeyAnswer | TupleAnswer


def subject_of(message: Message) -> str:
    """What a message is about, for people."""
    if isinstance(message, CopyMessage):
        return f"{type(message).__name__} of copy {message.copy}"
    return f"{type(message).__name__} of query {message.query_id}"


def payload_bytes(message: Message) -> int:
    """How much data a message carries; the rest of it is small."""
    return sum(len(value) for name in message.__slots__ if isinstance(value := getattr(message, name), bytes))
