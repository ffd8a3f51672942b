"""A 64-bit hash of byte strings, vectorised over rows.

The hash only has to spread well: whoever uses it compares the real keys
afterwards, so a collision costs time and never a wrong answer. It is a fixed
function (no seed, no ``hash()``), so a run can be replayed.

A row's hash is the sum of its scrambled 8-byte words, each salted with its
place in the row, plus a term for the length. A sum, because its terms can be
computed in any order: word by word across all rows while rows are short, and
many words of one row at once when a row is long. Work is proportional to the
bytes there are, not to rows times the longest row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_WORD = 8
#: So many leading words are taken one column at a time: most keys end here, and nothing need be expanded.
_NARROW = 4
#: After that, so many words of each row that is still going at once; bounds the scratch memory.
_BLOCK = 4096

_PLACE = np.uint64(0x9E3779B97F4A7C15)
_LENGTH = np.uint64(0xD6E8FEB86659FD93)
_MUL1, _MUL2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
#: ``_KEEP[n]`` keeps the first n bytes of a little-endian word.
_KEEP = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], dtype=np.uint64)


def scramble(words: U64) -> U64:
    """The finaliser of splitmix64: a bijection in which every input bit moves every output bit."""
    mixed = words ^ (words >> _S30)
    mixed *= _MUL1
    mixed ^= mixed >> _S27
    mixed *= _MUL2
    mixed ^= mixed >> _S31
    return mixed


def combine(columns: list[U64]) -> U64:
    """One hash for several columns, in which their order matters."""
    total = columns[0]
    for column in columns[1:]:
        total = scramble(total * _PLACE + column)
    return total


def hash_bytes(data: Bytes, starts: I64, lengths: I64) -> U64:
    """Hash row i = ``data[starts[i] : starts[i] + lengths[i]]`` for all i."""
    words = _overlapping_words(data)
    total: U64 = lengths.astype(np.uint64)
    total *= _LENGTH
    rows = np.flatnonzero(lengths)
    starts, lengths = starts[rows], lengths[rows]
    place = 0
    while rows.size:
        width = 1 if place < _NARROW else _BLOCK
        total[rows] += _sum_of_words(words, starts, lengths, place, width)
        place += width
        going = np.flatnonzero(lengths > width * _WORD)
        rows, starts, lengths = rows[going], starts[going] + width * _WORD, lengths[going] - width * _WORD
    return scramble(total)


def _overlapping_words(data: Bytes) -> U64:
    """The 8-byte word that begins at each byte; copied, because the last ones read past the end."""
    padded = np.empty(data.size + _WORD, dtype=np.uint8)
    padded[: data.size] = data
    padded[data.size :] = 0
    return np.ndarray((data.size + 1,), dtype="<u8", buffer=padded, strides=(1,))


def _sum_of_words(words: U64, starts: I64, left: I64, place: int, width: int) -> U64:
    """Sum of the next ``width`` scrambled words (fewer where fewer are left, at least one) of each row."""
    if width == 1:
        return scramble(_load(words, starts, left) + _salt(np.array([place])))
    counts = np.minimum(-(-left // _WORD), width)
    firsts = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(firsts, counts)
    behind = within * _WORD
    loaded = _load(words, np.repeat(starts, counts) + behind, np.repeat(left, counts) - behind)
    sums: U64 = np.add.reduceat(scramble(loaded + _salt(within + place)), firsts)
    return sums


def _load(words: U64, starts: I64, left: I64) -> U64:
    loaded: U64 = words[starts]
    loaded &= _KEEP[np.minimum(left, _WORD)]
    return loaded


def _salt(places: I64) -> U64:
    salt: U64 = (places + 1).astype(np.uint64) * _PLACE
    return salt
