"""Two streams of any size for one window join, as Narrows and Spark read them.

``FOLDER/left.parquet`` and ``right.parquet`` hold the streams, sorted by time.
``FOLDER/left/`` and ``right/`` hold the same rows in several files, cut at the same
instants in both streams and never between two rows of one instant; their
modification times ascend, because Spark's file source reads in that order.

Of the left ids, ``match_rate`` come back on the right once, nearly all inside the
window of 10 s; the others meet nothing although they lie in the same range.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

WINDOW_MS = 10_000
QUERY = (
    "SELECT l.id, l.ts AS l_ts, r.ts AS r_ts, l.account, l.note, r.amount_cents, r.score "
    "FROM left [RANGE 10 SECONDS] AS l JOIN right [RANGE 10 SECONDS] AS r ON l.id = r.id"
)

#: The columns of QUERY once more, for whoever must not read it: the oracle.
OUTPUTS = (
    ("id", "l", "id"),
    ("l_ts", "l", "ts"),
    ("r_ts", "r", "ts"),
    ("account", "l", "account"),
    ("note", "l", "note"),
    ("amount_cents", "r", "amount_cents"),
    ("score", "r", "score"),
)

START_MS = 1_760_000_000_000
#: The part of the partners that come too late or too early for the window.
OUTSIDE_RATE = 0.05
FILES_PER_STREAM = 20
SITES = {"west": "left", "east": "right"}
PORTS = (7601, 7602)
SYLLABLES = ("ka", "ri", "mo", "ten", "la", "su", "vor", "eli", "an", "po", "shi", "ber", "nu", "cas", "do", "wey")
WORDS_COUNT = 3_000
#: The fixed-width part of the payload: account 8, session 16, amount 8, score 8.
FIXED_BYTES = 40

Ints = npt.NDArray[np.int64]


def write_pair(
    folder: Path,
    rows: int,
    rows_per_second: int,
    match_rate: float,
    payload_bytes: int,
    *,
    seed: int = 0,
    files: int = FILES_PER_STREAM,
    ports: tuple[int, int] = PORTS,
) -> Path:
    """Write both streams of ``rows`` rows each and their cluster file; returns the cluster file's path."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    length_ms = max(1, rows * 1_000 // rows_per_second)
    left_ts, left_id = left_keys(random, rows, length_ms)
    right_ts, right_id = right_keys(random, left_ts, left_id, match_rate, length_ms)
    for name, ts, ids in (("left", left_ts, left_id), ("right", right_ts, right_id)):
        table = pa.table({"id": ids, "ts": ts, **payload(random, rows, payload_bytes)})
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        write_parts(folder / name, table, ts, length_ms, files)
    cluster = folder / "cluster.toml"
    cluster.write_text(cluster_text(ports))
    return cluster


def left_keys(random: np.random.Generator, rows: int, length_ms: int) -> tuple[Ints, Ints]:
    """Ascending times, and distinct even ids that grow with gaps like those of a busy sequence."""
    ts = START_MS + np.sort(random.integers(0, length_ms, rows))
    return ts, 2 * (50_000_000_000 + np.cumsum(random.integers(1, 8, rows)))


def right_keys(
    random: np.random.Generator, left_ts: Ints, left_id: Ints, match_rate: float, length_ms: int
) -> tuple[Ints, Ints]:
    """Ascending times and ids: the partners of some left rows, and odd ids that exist nowhere on the left."""
    rows = len(left_ts)
    partner = random.permutation(rows)[: round(rows * match_rate)]
    # Beyond 12 s but not far: a window that is too long by a little would be noticed.
    near, far = random.integers(-WINDOW_MS, WINDOW_MS + 1, len(partner)), random.integers(12_000, 20_000, len(partner))
    offset = np.where(random.random(len(partner)) < OUTSIDE_RATE, far, near)
    partner_ts = np.clip(left_ts[partner] + offset, START_MS, START_MS + length_ms - 1)
    stranger = random.integers(0, rows, rows - len(partner))
    ts = np.concatenate([partner_ts, left_ts[stranger]])
    ids = np.concatenate([left_id[partner], left_id[stranger] + 1])
    by_time = np.argsort(ts, kind="stable")
    return ts[by_time], ids[by_time]


def payload(random: np.random.Generator, rows: int, payload_bytes: int) -> dict[str, pa.Array]:
    """Columns of about ``payload_bytes`` a row in all: names, tokens, numbers and text, none constant."""
    words = vocabulary(random)
    accounts = pa.array([f"ac{number:06d}" for number in range(20_000)])
    return {
        "account": accounts.take(pa.array(random.zipf(1.3, rows) % len(accounts))),
        "session": hex_tokens(random, rows),
        "amount_cents": pa.array(random.lognormal(8.0, 1.2, rows).astype(np.int64)),
        "score": pa.array(np.round(random.beta(2.0, 5.0, rows), 4)),
        "note": sentences(random, rows, words, max(8, payload_bytes - FIXED_BYTES)),
    }


def vocabulary(random: np.random.Generator) -> list[str]:
    """Distinct pronounceable words, common ones first."""
    made = {"".join(random.choice(SYLLABLES, random.integers(1, 5))) for _ in range(4 * WORDS_COUNT)}
    return sorted(made, key=lambda word: (len(word), word))[:WORDS_COUNT]


def sentences(random: np.random.Generator, rows: int, words: list[str], width: int) -> pa.Array:
    """Texts of about ``width`` bytes, words drawn with a natural skew."""
    source = pa.array(words)
    mean_width = sum(map(len, words)) / len(words)
    count = max(1, round((width + 1) / (mean_width + 1)))
    skew = np.minimum((len(words) * random.random((count, rows)) ** 1.5).astype(np.int64), len(words) - 1)
    return pc.binary_join_element_wise(*(source.take(pa.array(drawn)) for drawn in skew), " ")


def hex_tokens(random: np.random.Generator, rows: int) -> pa.Array:
    """Sixteen random hexadecimal digits a row: the part no compression can remove."""
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[random.integers(0, 16, 16 * rows)]
    offsets = np.arange(0, 16 * (rows + 1), 16, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(digits))


def write_parts(folder: Path, table: pa.Table, ts: Ints, length_ms: int, files: int) -> None:
    """Write the rows again as files of equal spans of time."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("part-*.parquet"):
        old.unlink()
    bounds = START_MS + np.arange(1, files) * length_ms // files
    cuts = [0, *np.searchsorted(ts, bounds, "left").tolist(), table.num_rows]
    for number in range(files):
        path = folder / f"part-{number:04d}.parquet"
        pq.write_table(table.slice(cuts[number], cuts[number + 1] - cuts[number]), path, compression="zstd")
        modified = START_MS // 1_000 + number
        os.utime(path, (modified, modified))


def cluster_text(ports: tuple[int, int]) -> str:
    """The cluster file: each stream at its own site."""
    lines = ['tau = "1s"', 'engine = "native"']
    for (site, stream), port in zip(SITES.items(), ports, strict=True):
        lines += ["", f"[site.{site}]", f'listen = "127.0.0.1:{port}"']
        lines += ["", f"[site.{site}.stream.{stream}]", f'path = "{stream}.parquet"', 'ts = "ts"', 'unit = "ms"']
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write a pair from the command line."""
    parser = argparse.ArgumentParser(description=write_pair.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows per stream")
    parser.add_argument("--rows-per-second", type=int, default=10_000)
    parser.add_argument("--match-rate", type=float, default=0.1)
    parser.add_argument("--payload-bytes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=FILES_PER_STREAM)
    given = parser.parse_args()
    print(
        write_pair(
            given.folder,
            given.rows,
            given.rows_per_second,
            given.match_rate,
            given.payload_bytes,
            seed=given.seed,
            files=given.files,
        )
    )


if __name__ == "__main__":
    main()
