"""Damage in the log of a stream: where it is, which ticks it costs, and how a log goes on without them.

A damaged log is refused, until somebody accepts the loss. What is needed of a log always reaches from some tick to its
end, so whoever needs a damaged tick needs all that follows: the log begins anew after the last damage. Files are put
aside under a name that says so, and never removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from node.core.encoding.rows import empty_batch
from node.core.errors import invariant
from node.core.streams.sealer import Batch
from node.core.streams.ticks import Span
from node.storage.disk import Bytes, Disk
from node.storage.errors import DamagedLogError, StorageError, VersionError
from node.storage.record import HEAD_BYTES, MARK, RecordHead, decode_batch, decode_head, encode_record, is_whole
from node.storage.segment import (
    UNFINISHED,
    Segment,
    encode_segment_head,
    first_tick_of,
    is_segment,
    read_segment_head,
    segment_name,
    was_synced,
)

#: What the name of a file ends with that is no part of the log any more.
ASIDE = ".damaged"


@dataclass(frozen=True, slots=True)
class Damage:
    """Something of a log that cannot be read, and the ticks whose tuples are lost with it."""

    path: str
    byte: int
    ticks: Span

    def __str__(self) -> str:
        return f"{self.path} at byte {self.byte}: ticks {self.ticks} are lost"


@dataclass(frozen=True, slots=True)
class _Record:
    head: RecordHead
    offset: int

    @property
    def end(self) -> int:
        return self.offset + HEAD_BYTES + self.head.body_bytes


@dataclass(slots=True)
class _File:
    """A segment as it was found: what is whole after the last damage in it, and the last record of which we know."""

    name: str
    segment: Segment | None
    damages: list[Damage]
    whole: list[_Record]
    last: _Record | None
    end_tick: int


class LogDamage:
    """What is wrong with the log in a folder; looks, and touches nothing before ``take_out``."""

    def __init__(self, disk: Disk) -> None:
        """Raises VersionError for a segment of another version, DamagedLogError if it is not known where it ended."""
        self._disk = disk
        self._files: list[_File] = []
        names = [name for name in disk.names() if is_segment(name)]
        for name, following in zip(names, [*names[1:], None], strict=True):
            self._files.append(self._look(name, None if following is None else first_tick_of(following)))

    @property
    def damages(self) -> tuple[Damage, ...]:
        """All there are, in the order of their ticks."""
        return tuple(damage for file in self._files for damage in file.damages)

    def _look(self, name: str, limit: int | None) -> _File:
        """``limit``: the tick with which the next segment begins; None: this is the last one."""
        path, data = f"{self._disk.path}/{name}", self._data(name)
        first = first_tick_of(name)
        try:
            segment = read_segment_head(path, name, data)
        except VersionError:
            raise
        except StorageError:
            return self._headless(name, data, limit)
        file = _File(name, segment, [], [], None, first)
        at = segment.nbytes
        while at < len(data) and (limit is None or file.end_tick < limit):
            record = _whole_at(data, at)
            if record is None or record.head.span.first != file.end_tick:
                if limit is None and not was_synced(data, at, file.end_tick):
                    break  # a torn tail
                found = self._after_damage(file, data, at, limit)
                if found is None:
                    break
                record = found
            file.whole.append(record)
            file.last, file.end_tick, at = record, record.head.span.end, record.end
        if limit is not None and file.end_tick < limit:
            file.damages.append(Damage(path, at, Span(file.end_tick, limit)))
            file.whole.clear()
            file.end_tick = limit
        return file

    def _data(self, name: str) -> memoryview:
        """One segment is in memory at a time: a log may be larger than that."""
        return memoryview(self._disk.read(name, 0, self._disk.size(name)))

    def _after_damage(self, file: _File, data: memoryview, at: int, limit: int | None) -> _Record | None:
        """Note the damage at this place; the next whole record."""
        lost_from = file.end_tick
        found = None
        for record in _records(data, at + 1):
            span = record.head.span
            if span.first < lost_from or (limit is not None and span.first >= limit):
                continue
            # One with the very tick that is missed comes after bytes that nobody wrote: it is not believed.
            if span.first > lost_from and _whole_at(data, record.offset) is not None:
                found = record
                break
            file.last, file.end_tick = record, span.end
        if found is not None:
            file.end_tick = found.head.span.first
        elif limit is not None:
            file.end_tick = limit
        file.damages.append(Damage(f"{self._disk.path}/{file.name}", at, Span(lost_from, file.end_tick)))
        file.whole.clear()
        return found

    def _headless(self, name: str, data: memoryview, limit: int | None) -> _File:
        """Without its schema nothing of a segment can be read."""
        path, first = f"{self._disk.path}/{name}", first_tick_of(name)
        ends = [record.head.span.end for record in _records(data, 0)]
        end = limit if limit is not None else max(ends, default=None)
        if limit is None:
            # The tail of a log says where its stream goes on: that cannot be kept without the schema.
            known = "nothing" if end is None else f"ticks {Span(first, end)}"
            raise DamagedLogError(
                f"{path} at byte 0 required the head of the newest segment; got damaged bytes, and with them {known} "
                "(restore a backup, or begin anew with narrows node --fresh)"
            )
        assert end is not None
        return _File(name, None, [Damage(path, 0, Span(first, end))], [], None, end)

    # -- going on without it --------------------------------------------------------------------

    def take_out(self) -> list[str]:
        """Put aside what cannot be read and all before it; the names of the files that were put aside.

        After a crash in the middle of it the log is still damaged, and this can be done again.
        """
        if not self.damages:
            return []
        begin = self.damages[-1].ticks.end
        gone = [file for file in self._files if first_tick_of(file.name) < begin]
        self._rescue(gone[-1])
        for file in gone:
            self._disk.rename(file.name, file.name + ASIDE)
            self._disk.sync_names()
        return [file.name + ASIDE for file in gone]

    def _rescue(self, file: _File) -> None:
        """Write what is whole after the last damage to a file of its own, beside the damaged one, if there is any.

        If the log would have nothing left, that is an empty batch of its last tick, which says where the stream goes
        on; that the tick is lost is known from the damage.
        """
        batches = list(_batches(file, self._data(file.name)))
        if not batches and file is self._files[-1]:
            batches = [_ending(file)]
        if not batches:
            return
        name = segment_name(batches[0].span.first)
        invariant(name != file.name, f"what follows damage requires a name of its own; got {name}")
        assert file.segment is not None
        data: list[Bytes] = [encode_segment_head(file.segment.schema)]
        for batch in batches:
            data += encode_record(batch, sum(map(len, data)))
        made = self._disk.create(name + UNFINISHED)
        try:
            made.append(data)
            made.sync()
        finally:
            made.close()
        self._disk.rename(name + UNFINISHED, name)
        self._disk.sync_names()


def _ending(file: _File) -> Batch:
    assert file.last is not None
    assert file.segment is not None
    head, rows = file.last.head, empty_batch(file.segment.schema)
    span = Span(head.span.end - 1, head.span.end)
    return Batch(span, rows, np.empty(0, np.int64), head.first + head.rows, head.newest, head.place)


def _batches(file: _File, data: memoryview) -> Iterator[Batch]:
    assert file.segment is not None or not file.whole
    for record in file.whole:
        assert file.segment is not None
        yield decode_batch(record.head, data[record.offset + HEAD_BYTES : record.end], file.segment.schema)


def _whole_at(data: memoryview, at: int) -> _Record | None:
    head = decode_head(data, at)
    if head is None or not is_whole(head, data[at + HEAD_BYTES : at + HEAD_BYTES + head.body_bytes]):
        return None
    return _Record(head, at)


def _records(data: memoryview, at: int) -> Iterator[_Record]:
    """The heads of records from a place on, whole or not."""
    every = bytes(data)
    found = every.find(MARK, at)
    while found >= 0:
        head = decode_head(every, found)
        if head is not None:
            yield _Record(head, found)
        found = every.find(MARK, found + 1)
