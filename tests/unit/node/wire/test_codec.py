"""Frames on a connection: joined, compressed, checked, counted; what is wrong is refused and does no other harm."""

from __future__ import annotations

import contextlib
import random
import zlib

import numpy as np
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from node.codec import SHIPMENT_BYTES_MAX, FrameReader, FrameWriter, Shipment, cut
from node.core.errors import PeerProtocolError
from node.core.links.compression import Compressor, Decompressor
from node.core.links.link_frames import Ack, Frame, Hello, Kind, Part, Ping, Pong, Refuse
from node.core.links.messages import AskMatches, Message
from node.core.streams.ticks import Span
from node.wire import encode_message
from tests.examples import examples
from tests.unit import fuzz

texts = st.text(st.characters(codec="utf-8"), max_size=20)
u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
s64 = st.integers(-(2**63), 2**63 - 1)
numbers = st.lists(s64, max_size=6).map(tuple) | st.lists(s64, min_size=30, max_size=40).map(tuple)
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Hello, u32, texts, u64, texts, texts, u64, u64, u64, u64, st.binary(max_size=50)),
    st.builds(Part, u64, st.sampled_from(Kind), st.booleans(), st.binary(max_size=50), u64, numbers),
    st.builds(Ack, u64),
    st.builds(Ping, s64),
    st.builds(Pong, s64),
    st.builds(Refuse, texts),
)
turns = st.lists(st.lists(frames, max_size=6), min_size=1, max_size=6)


def part(seq: int, payload: bytes, numbers: tuple[int, ...] = (), kind: Kind = Kind.TUPLES) -> Part:
    return Part(seq, kind, False, payload, 1, numbers)


def refuses(reader: FrameReader, shipment: Shipment, text: str) -> None:
    with pytest.raises(PeerProtocolError, match=text):
        reader.read(shipment)


@examples(200)
@given(turns)
def test_frames_come_back_as_they_were_turn_after_turn(turns: list[list[Frame]]) -> None:
    writer, reader = FrameWriter(), FrameReader()
    for turn in turns:
        assert [frame for shipment in writer.write(turn) for frame in reader.read(shipment)] == turn


@examples(100)
@given(turns)
def test_every_byte_of_a_shipment_is_counted_under_the_kind_of_its_frame(turns: list[list[Frame]]) -> None:
    writer = FrameWriter()
    for turn in turns:
        shipments = writer.write(turn)
        shares = [shipment.shares for shipment in shipments]
        assert [sum(size for _, size in share) for share in shares] == [len(shipment) for shipment in shipments]
        assert [kind for share in shares for kind, _ in share] == [
            frame.kind if isinstance(frame, Part) else Kind.CONTROL for frame in turn
        ]


def test_what_is_said_in_one_turn_is_one_shipment_unless_it_is_large() -> None:
    noise = np.random.default_rng(1).bytes
    writer = FrameWriter()
    assert len(writer.write([part(number, noise(100)) for number in range(20)])) == 1
    assert len(writer.write([part(number, noise(10_000)) for number in range(3)])) == 3
    assert writer.write([]) == []
    (shipment,) = writer.write([part(1, noise(50), kind=Kind.KEYS), part(2, noise(5_000), kind=Kind.SYNC), Ack(7)])
    assert [kind for kind, _ in shipment.shares] == [Kind.KEYS, Kind.SYNC, Kind.CONTROL]
    assert [size for _, size in shipment.shares] == [pytest.approx(size, abs=20) for size in (50, 5_000, 5)]


def test_bytes_that_are_no_shipment_are_counted_as_control() -> None:
    for junk in (b"", b"x", b"\xff" * 9, b"\x0e" * 9):
        assert cut(junk).shares == [(Kind.CONTROL, len(junk))]


# -- the context ------------------------------------------------------------------------------


def asked(tick: int) -> Message:
    sealed_at_us = 1_760_000_000_123_456 + tick * 100_321
    low = 1_760_000_000_000 + tick * 100
    return AskMatches("frankfurt-1", "orders", Span(tick, tick + 1), 0, sealed_at_us, low, low + 99, 0, b"")


def test_what_was_said_before_costs_next_to_nothing() -> None:
    writer = FrameWriter()
    text = np.random.default_rng(1).bytes(2_000)
    first, again = (len(writer.write([part(number, text)])[0]) for number in (1, 2))
    assert first > 2_000
    assert again < 30


def test_ticks_and_times_that_move_on_cost_a_few_bytes() -> None:
    writer = FrameWriter()
    sizes = [len(writer.write([part(1 + tick, *encode_message(asked(tick)))])[0]) for tick in range(100)]
    assert max(sizes[2:]) < 30


def test_a_new_connection_knows_nothing_of_the_one_before() -> None:
    old, text = FrameWriter(), np.random.default_rng(1).bytes(2_000)
    repeated = [part(1, text), part(2, text)]
    old.write(repeated)
    (shipment,) = old.write(repeated[1:])
    with pytest.raises(PeerProtocolError):
        FrameReader().read(shipment)
    new, reader = FrameWriter(), FrameReader()
    assert [frame for shipment in new.write(repeated) for frame in reader.read(shipment)] == repeated


@pytest.mark.parametrize("payload", [b"", b"same", b"\x01abcdefgh"])
@pytest.mark.parametrize("order", [(1,), (0, 2), (0, 0), (0, 1, 3), (0, 1, 0), (0, 1, 2, 2)])
def test_a_shipment_that_is_lost_or_repeated_is_noticed(payload: bytes, order: tuple[int, ...]) -> None:
    writer, reader = FrameWriter(), FrameReader()
    shipments = [writer.write([part(seq, payload)])[0] for seq in range(1, 5)]
    for number in order[:-1]:
        reader.read(shipments[number])
    with pytest.raises(PeerProtocolError):
        reader.read(shipments[order[-1]])


# -- damage -----------------------------------------------------------------------------------


@examples(150)
@given(turns, st.data())
def test_no_flipped_bit_and_no_missing_byte_passes_for_something_else(
    turns: list[list[Frame]], data: st.DataObject
) -> None:
    writer, reader = FrameWriter(), FrameReader()
    shipments = [shipment for turn in turns for shipment in writer.write(turn)]
    if not shipments:
        return
    for shipment in shipments[:-1]:
        reader.read(shipment)
    whole = shipments[-1]
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    damaged = bytearray(whole.data)
    damaged[bit // 8] ^= 1 << bit % 8
    # A few bits of the compressor's format mean nothing: then nothing is damaged.
    with contextlib.suppress(PeerProtocolError):
        sent = [frame for turn in turns for frame in turn]
        got = reader.read(cut(bytes(damaged)))
        assert got == sent[len(sent) - len(got) :]
    fresh = FrameReader()
    for shipment in shipments[:-1]:
        fresh.read(shipment)
    refuses(fresh, cut(whole.data[:-1]), "a frame requires")


@examples(300)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(noise: bytes) -> None:
    with contextlib.suppress(PeerProtocolError):
        FrameReader().read(cut(noise))
        pytest.fail("noise was taken for frames")
    assert sum(size for _, size in cut(noise).shares) == len(noise)


@examples(200)
@given(turns, st.integers(0, 2**32))
def test_damaged_shipments_are_refused_or_taken_and_nothing_else(turns: list[list[Frame]], seed: int) -> None:
    writer, reader = FrameWriter(), FrameReader()
    rng = random.Random(seed)
    with contextlib.suppress(PeerProtocolError):
        for turn in turns:
            for shipment in writer.write(turn):
                reader.read(cut(fuzz.mutate(rng, shipment.data)) if rng.random() < 0.5 else shipment)


def shipment_of(head: int, body: bytes) -> Shipment:
    """The first shipment of a connection, with a checksum that fits whatever is in it."""
    checksum = zlib.crc32(body, zlib.crc32(bytes((head,))))
    return cut(bytes((head,)) + Compressor().compress(body) + checksum.to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        (0x26, b"\0\0\0", "a part requires a kind up to 5; got 6"),
        (0x20, b"", "a number requires"),
        (0x20, b"\0", "a number requires"),
        (0x20, b"\0\x21" + b"\0" * 32, "a number requires"),
        (0x20, b"\0" + b"\xff" * 9 + b"\x01" + b"\0" * 40, "at most 4096 numbers; got 18446744073709551615"),
        (0x20, b"\0\x02\0", "a number requires"),
        (0x40, b"\xff" * 11, "a number requires"),
        (0x00, b"", "a frame requires a body"),
        (0x00, b"\xff\xff", "require a frame"),
        (0x60, b"\xff\xff", "a frame requires one of the forms"),
    ],
)
def test_frames_that_are_none_are_refused_though_their_checksum_fits(head: int, body: bytes, text: str) -> None:
    refuses(FrameReader(), shipment_of(head, body), text)


def test_bytes_after_an_acknowledgement_are_refused() -> None:
    refuses(FrameReader(), shipment_of(0x40, b"\0\0"), "an acknowledgement requires")


def test_bytes_too_short_for_a_checksum_are_refused() -> None:
    for size in range(6):
        refuses(FrameReader(), cut(b"\0" * size), "a frame requires")


# -- bombs ------------------------------------------------------------------------------------


def test_what_would_become_too_large_is_refused_before_it_is() -> None:
    bomb = shipment_of(0x20, b"\0" * (64 * SHIPMENT_BYTES_MAX))
    assert len(bomb) < 64 * 1024
    refuses(FrameReader(), bomb, f"frames require at most {SHIPMENT_BYTES_MAX} bytes together")


def test_frames_of_one_shipment_share_what_they_may_become() -> None:
    writer = FrameWriter()
    body = b"\0" * (SHIPMENT_BYTES_MAX // 2 + 1)
    refuses(FrameReader(), writer._ship([(0x20, body), (0x20, body)]), "bytes together; got more")


def test_the_largest_part_there_may_be_passes() -> None:
    whole = part(1, np.random.default_rng(1).bytes(4 * 1024 * 1024 - 1))
    (shipment,) = FrameWriter().write([whole])
    assert FrameReader().read(shipment) == [whole]


def test_a_window_larger_than_ours_is_refused() -> None:
    parameter = zstd.CompressionParameter
    large = zstd.ZstdCompressor(options={parameter.window_log: 27})
    with pytest.raises(PeerProtocolError, match="can be decompressed"):
        Decompressor().decompress(large.compress(b"x" * 1_000, zstd.ZstdCompressor.FLUSH_BLOCK), 10_000)


def test_a_stream_that_ends_is_refused() -> None:
    with pytest.raises(PeerProtocolError, match="one compressed stream"):
        Decompressor().decompress(zstd.compress(b"over"), 100)
