"""Profiles of streams to protobuf and back, for messages.

Sketches are most of it. The upper half of a hash is all that a sketch is made with (``node.core.planning.profile``), so
that is what travels, as differences; times travel in the largest unit in which they are whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from node.core.encoding.ints import decode_ints, encode_ints
from node.core.encoding.varint import decode_varint
from node.core.errors import PeerProtocolError, invariant
from node.core.links.messages import LinkSeen, Profiles, RunningCounts
from node.rpc import link_pb2 as pb
from node.wire.copies import copy_in, copy_out
from planner.estimate.statistics import HASH_END, KeySketch, StreamProfile

I64 = NDArray[np.int64]

#: More keys than any site sends, and more than a plan gains from: of a sketch, and of all in a message.
_KEYS_MAX = 2**16
_ALL_KEYS_MAX = 2**20
#: Times and counts stay below this: they can be added and converted without overflow.
_NUMBER_MAX = 2**62
_HALF = 32


def profiles_out(message: Profiles) -> pb.Profiles:
    """The body of the message."""
    return pb.Profiles(
        profiles=[_profile_out(alias, profile) for alias, profile in message.profiles],
        missing=[pb.Missing(alias=alias, reason=reason) for alias, reason in message.missing],
        links=[pb.LinkSeen(site=link.peer, rtt_us=link.rtt_us, bytes_per_s=link.bytes_per_s) for link in message.links],
        copies=[copy_out(copy) for copy in message.copies],
        counts=None if message.counts is None else _counts_out(message.counts),
        kept_bytes=message.kept_bytes,
    )


def profiles_in(query_id: str, body: pb.Profiles) -> Profiles:
    """The message of that body.

    Raises PeerProtocolError if a number in it cannot be.
    """
    keys = 0
    for profile in body.profiles:
        for sketch in profile.sketches:
            keys += _keys(sketch)
            if keys > _ALL_KEYS_MAX:
                raise PeerProtocolError(f"profiles require sketches of at most {_ALL_KEYS_MAX} keys; got {keys}")
    return Profiles(
        query_id,
        tuple((profile.alias, _profile(profile)) for profile in body.profiles),
        tuple((missing.alias, missing.reason) for missing in body.missing),
        tuple(_link(link) for link in body.links),
        tuple(copy_in(copy) for copy in body.copies),
        _counts(body.counts) if body.HasField("counts") else None,
        _whole("bytes of kept joins", body.kept_bytes),
    )


def _counts_out(counts: RunningCounts) -> pb.RunningCounts:
    return pb.RunningCounts(
        sent=[pb.Count(name=name, bytes=nbytes) for name, nbytes in counts.sent],
        ship_all=[pb.Count(name=name, bytes=nbytes) for name, nbytes in counts.ship_all],
        frontiers=[pb.Frontier(alias=alias, tick=tick) for alias, tick in counts.frontiers],
        shared=[copy_out(copy) for copy in counts.shared],
        unreached=counts.unreached,
    )


def _counts(body: pb.RunningCounts) -> RunningCounts:
    return RunningCounts(
        tuple((count.name, _whole("bytes that were sent", count.bytes)) for count in body.sent),
        tuple((count.name, _whole("bytes of a stream", count.bytes)) for count in body.ship_all),
        tuple((frontier.alias, frontier.tick) for frontier in body.frontiers),
        tuple(copy_in(copy) for copy in body.shared),
        tuple(body.unreached),
    )


def _link(link: pb.LinkSeen) -> LinkSeen:
    rtt_us = _whole("a round trip", link.rtt_us) if link.HasField("rtt_us") else None
    bytes_per_s = _positive("a bandwidth", link.bytes_per_s) if link.HasField("bytes_per_s") else None
    return LinkSeen(link.site, rtt_us, bytes_per_s)


def _profile_out(alias: str, profile: StreamProfile) -> pb.Profile:
    return pb.Profile(
        alias=alias,
        rows=round(profile.rows),
        span_us=profile.span_us,
        batch_rows=profile.batch_rows,
        columns=list(profile.column_bytes),
        column_bytes=list(profile.column_bytes.values()),
        sketches=[_sketch_out(names, sketch) for names, sketch in profile.keys.items()],
    )


def _profile(profile: pb.Profile) -> StreamProfile:
    if len(profile.columns) != len(profile.column_bytes):
        got = f"{len(profile.columns)} and {len(profile.column_bytes)}"
        raise PeerProtocolError(f"a profile requires one size per column; got {got}")
    sizes = [_positive("the size of a column", size) for size in profile.column_bytes]
    return StreamProfile(
        _whole("rows of a profile", profile.rows),
        max(1, _whole("the span of a profile", profile.span_us)),
        max(1.0, _positive("the rows of a batch", profile.batch_rows)),
        dict(zip(profile.columns, sizes, strict=True)),
        {tuple(sketch.columns): _sketch(sketch) for sketch in profile.sketches},
    )


def _sketch_out(names: Sequence[str], sketch: KeySketch) -> pb.Sketch:
    halves = (sketch.hashes >> np.uint64(_HALF)).astype(np.int64)
    out = pb.Sketch(columns=list(names), hashes=encode_ints(np.diff(halves, prepend=0)))
    out.counts = encode_ints(sketch.counts.astype(np.int64))
    if sketch.limit != HASH_END:
        invariant(sketch.limit % 2**_HALF == 0, "sketch: limits are hashes, whose lower half is zero")
        out.limit = sketch.limit >> _HALF
    if sketch.first_us is not None and sketch.last_us is not None and len(halves):
        unit = max(1, int(np.gcd.reduce(np.concatenate([sketch.first_us, sketch.last_us]))))
        out.time_unit_us = unit
        out.firsts = encode_ints(sketch.first_us // unit)
        out.lengths = encode_ints((sketch.last_us - sketch.first_us) // unit)
    return out


def _keys(sketch: pb.Sketch) -> int:
    """How many keys a sketch says it has."""
    return decode_varint(sketch.hashes, 0)[0] if sketch.hashes else 0


def _sketch(sketch: pb.Sketch) -> KeySketch:
    steps, counts = decode_ints(sketch.hashes, _KEYS_MAX), decode_ints(sketch.counts, _KEYS_MAX)
    if len(steps) != len(counts):
        raise PeerProtocolError(f"a sketch requires a count for each key; got {len(steps)} keys, {len(counts)} counts")
    # The first hash may be zero; bounded steps of bounded number cannot overflow.
    if len(steps) and (steps[0] < 0 or (steps[1:] <= 0).any() or (steps >= 2**_HALF).any()):
        raise PeerProtocolError("a sketch requires hashes that ascend; got others")
    halves = np.cumsum(steps)
    limit = sketch.limit if sketch.HasField("limit") else 2**_HALF
    if limit < 1 or (len(halves) and halves[-1] >= limit):
        raise PeerProtocolError(f"a sketch requires hashes below its limit; got a limit of {limit}")
    if len(counts) and (counts.min() < 1 or counts.max() > _NUMBER_MAX):
        raise PeerProtocolError(f"a sketch requires counts from 1 on; got {counts.min()} to {counts.max()}")
    hashes = halves.astype(np.uint64) << np.uint64(_HALF)
    return KeySketch(hashes, counts, limit << _HALF, *_times(sketch, len(counts)))


def _times(sketch: pb.Sketch, keys: int) -> tuple[I64, I64] | tuple[None, None]:
    if not sketch.time_unit_us:
        return (np.empty(0, np.int64), np.empty(0, np.int64)) if not keys else (None, None)
    firsts, lengths = decode_ints(sketch.firsts, _KEYS_MAX), decode_ints(sketch.lengths, _KEYS_MAX)
    if len(firsts) != keys or len(lengths) != keys:
        got = f"{len(firsts)} and {len(lengths)}"
        raise PeerProtocolError(f"a sketch requires times for each of its {keys} keys; got {got}")
    largest = _NUMBER_MAX // 2 // sketch.time_unit_us
    if keys and (firsts.min() < -largest or firsts.max() > largest or lengths.min() < 0 or lengths.max() > largest):
        raise PeerProtocolError(f"a sketch requires times within {_NUMBER_MAX // 2} us of zero; got others")
    unit = np.int64(sketch.time_unit_us)
    return firsts * unit, (firsts + lengths) * unit


def _whole(what: str, value: int) -> int:
    if value > _NUMBER_MAX:
        raise PeerProtocolError(f"{what} requires at most {_NUMBER_MAX}; got {value}")
    return value


def _positive(what: str, value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise PeerProtocolError(f"{what} requires a number from 0 on; got {value}")
    return value
