"""Every bound of the protocol, with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass

from node.core.errors import invariant
from planner.algorithms.framing import NEWS_HELD, NEWS_S
from planner.model.constants import BOOK_KEYS_MAX, BOOK_QUESTIONS_MAX

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that the simulator tightens to reach rare paths; the daemon uses the defaults."""

    #: A source is not read further while this much of it is sealed but not done.
    ahead_bytes_max: int = 64 * MIB
    #: The same in batches, so that tiny ticks cannot pile up without end.
    ahead_batches_max: int = 256
    #: Rows of a stream in ticks that are not over. Only reading on seals them, so there is nothing to wait for: beyond
    #: this the stream fails. As much as one message may carry in memory.
    open_bytes_max: int = 1024 * MIB
    #: The logs of a site's streams: while they hold this much, no source of the site is read. What was
    #: being read and logged then comes on top. It is the log_quota of the cluster.
    log_bytes_max: int = 16 * GIB
    #: One frame on the wire. gRPC refuses 4 MiB; small parts let acknowledgements pass between them.
    part_bytes_max: int = 1 * MIB
    #: One message of several parts; more than any honest batch, less than what would hurt.
    message_bytes_max: int = 512 * MIB
    #: The rows of one message; the rest of it is small.
    shipment_bytes_max: int = 511 * MIB
    #: Sent and not acknowledged: what a fast long link needs, and all that a cut can make us repeat.
    inflight_bytes_max: int = 8 * MIB
    #: The past of a stream, for a copy that catches up, travels in pieces of a quarter of a tick of what the link
    #: carries; but not smaller than this, of which headers are a small part ...
    piece_bytes_min: int = 16 * 1024
    #: ... nor larger: one is made in one turn, and others wait for that ...
    piece_bytes_max: int = 2 * MIB
    #: ... and this large while it is not known what the link carries. Four of them are enough to measure that.
    piece_bytes_unknown: int = 256 * 1024
    #: All that waits for a peer, while it is away too; more than sources that pause let wait. Beyond it the session
    #: with the peer is given up, and another begins.
    queue_bytes_max: int = 1024 * MIB
    #: Received and not acknowledged: an acknowledgement goes out at once beyond this.
    ack_bytes: int = 256 * 1024
    #: An acknowledgement waits at most this long for a message to ride on; alone it costs 23 to 49 bytes.
    ack_us: int = 2_000_000
    #: Walks that ended without rows, and done frontiers, wait for a message to ride on: at most so many ...
    news_held_max: int = NEWS_HELD
    #: ... and at most this long.
    news_us: int = round(NEWS_S * 1e6)
    #: A query is planned without what a site has not told by then.
    profile_us: int = 5_000_000
    #: A query that is not ready everywhere by then is given up by its home: sites that are ready hold
    #: their streams for it, and with them other queries.
    prepare_us: int = 60_000_000
    #: A site that is ready and hears neither Start nor Drop for this long gives the query up itself.
    prepared_us: int = 120_000_000
    #: A plan to which a query is to go over is given up if some site has not filled by then what that looks at.
    fill_us: int = 600_000_000
    #: A query that has as much under way as is allowed, of which nothing was done for this long, is voided if it keeps
    #: others from reading the same stream. Long enough for a link to be taken for dead and dialled again.
    lag_us: int = 30_000_000
    #: How often what a query by policy delta goes by is looked at again: some round trips are measured meanwhile.
    delta_epoch_us: int = 10_000_000
    #: How often a link measures its round trip.
    ping_us: int = 4_000_000
    #: A link that heard nothing for this long is taken for dead and dialled again.
    silence_us: int = 10_000_000
    #: A second connection that says it is from a site waits this long for the first one to show that it lives.
    answer_us: int = 2_000_000

    #: Keys asked about are remembered by number, at both ends alike, for so many questions and up to so many keys:
    #: some megabytes a step. All sites of a cluster must have the same here.
    book_questions_max: int = BOOK_QUESTIONS_MAX
    book_keys_max: int = BOOK_KEYS_MAX

    #: Of so many ended queries a site keeps what status and explain show; older ones are forgotten.
    ended_queries_max: int = 100
    #: Rows of ended queries that nobody has taken are not forgotten, so no more queries are taken on beyond this.
    untaken_queries_max: int = 1_000
    #: So many copies that queries needed which are over at the stream's site may still be opened: their holders may
    #: not have heard of the end, and have lent them to others.
    unopened_copies_max: int = 10_000
    #: Fences of so many queries and sites are remembered; a peer could send any number.
    fences_max: int = 100_000

    def __post_init__(self) -> None:
        invariant(self.part_bytes_max <= self.inflight_bytes_max, "limits: a part must fit in flight")
        invariant(self.shipment_bytes_max + MIB <= self.message_bytes_max, "limits: a shipment must fit in a message")
        invariant(self.message_bytes_max <= self.queue_bytes_max, "limits: a message must fit in the queue of a link")
        invariant(
            self.piece_bytes_min <= self.piece_bytes_unknown <= self.piece_bytes_max,
            "limits: a piece is no smaller than the least and no larger than the largest",
        )
        invariant(self.part_bytes_max < 4 * MIB, "limits: a part must fit in a gRPC message")
        invariant(self.ahead_bytes_max <= self.open_bytes_max, "limits: a tick may be as large as what is under way")
        invariant(self.ack_bytes < self.inflight_bytes_max, "limits: acknowledge before the sender stalls")
        invariant(self.prepare_us < self.prepared_us, "limits: home must give up before the sites do")
        invariant(self.ping_us * 2 < self.silence_us, "limits: silence must outlast two pings")
        invariant(self.answer_us < self.silence_us, "limits: who is asked must answer before it is taken for silent")
        invariant(self.silence_us < self.lag_us, "limits: a link must be dialled again before a query lags")
        invariant(self.news_us < self.lag_us, "limits: what is done must be told before a query lags")
        invariant(self.ended_queries_max >= 1, "limits: a query that ends must be there to be looked at")

    @property
    def news_held(self) -> int:
        """How much news may be held: a small part of what a source may be ahead, or it would wait for the clock."""
        return max(1, min(self.news_held_max, self.ahead_batches_max // 4))
