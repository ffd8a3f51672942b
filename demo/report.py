"""What the demo found: the rows against the oracle's, and the bytes against shipping everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console

from cli.show.tables import size_text, table
from demo.shop import EDGES, OUTPUTS, STREAMS, WINDOWS_US
from tests.oracle.compare import same_rows
from tests.oracle.oracle import OracleStream, expected


@dataclass(frozen=True)
class Verdict:
    """How many rows came, how many had to come, and what differs if anything does."""

    delivered: int
    expected: int
    difference: str | None


def judge(folder: Path, rows: Path) -> Verdict:
    """Compare the delivered file with brute force over the demo's streams."""
    tables = {alias: pq.read_table(folder / f"{name}.parquet") for alias, name in STREAMS.items()}
    streams = [OracleStream(alias, table, "ts", "ms", ("range", WINDOWS_US[alias])) for alias, table in tables.items()]
    wanted = expected(streams, EDGES, OUTPUTS)
    delivered = pq.read_table(rows)
    return Verdict(delivered.num_rows, wanted.num_rows, same_rows(delivered, wanted))


def show_verdict(console: Console, verdict: Verdict) -> None:
    """The two counts, and whether the rows are the same."""
    counts = table("Rows", "which", ">how many")
    counts.add_row("delivered by Narrows", f"{verdict.delivered:,}")
    counts.add_row("expected by the oracle (brute force)", f"{verdict.expected:,}")
    counts.add_row("the same rows", "yes" if verdict.difference is None else "NO")
    console.print(counts)


def saved_text(total: int, everything: int) -> str:
    """What the two figures say."""
    if total >= everything:
        return "Nothing is saved on so little data: what is around the tuples weighs more."
    saved = 100 * (everything - total) / everything
    return (
        f"{size_text(total)} crossed the links: {saved:.0f} % less than shipping every tuple ({size_text(everything)})."
    )


def longest_text(everything: Mapping[tuple[str, str], int], bytes_per_s: float, seconds: float) -> str:
    """How long the busiest link would have been busy with shipping everything."""
    (source, target), most = max(everything.items(), key=lambda item: item[1], default=(("", ""), 0))
    needed = most / bytes_per_s
    if needed <= seconds:
        return ""
    return (
        f"Shipping everything, {source} to {target} alone would have taken {needed:.0f} s on that link; "
        f"this took {seconds:.0f} s."
    )
