"""What the demo found: the rows against the oracle's, and the bytes against shipping everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from cli.tables import size_text, table
from demo.shop import OUTPUTS, WINDOWS_US
from node.rpc import control_pb2 as pb
from tests.oracle.compare import same_rows
from tests.oracle.oracle import OracleStream, expected_pairs

#: The kinds of byte that the ledgers know, in the order of the table, and what they are.
KINDS = {
    "keys": "join keys that ask another site what they match",
    "key_answers": "which of those keys match",
    "tuples": "stream tuples on their way to the site that joins them",
    "sync": "what keeps a copy of a window at another site up to date",
    "results": "joined rows on their way to the query's home",
    "control": "planning, progress and keeping the link alive",
    "framing": "what gRPC and HTTP/2 put around all that",
}
SAMPLE_COLUMNS = ("id", "customer", "item", "method", "amount_cents")
SAMPLE_ROWS = 3


@dataclass(frozen=True)
class Verdict:
    """The rows that came, the rows that had to come, and what differs if anything does."""

    delivered: pa.Table
    expected_count: int
    difference: str | None


def judge(folder: Path, rows: Path) -> Verdict:
    """Compare the delivered file with brute force over the demo's two streams."""
    orders, payments = (pq.read_table(folder / f"{name}.parquet") for name in ("orders", "payments"))
    expected = expected_pairs(
        OracleStream("o", orders, "ts", "ms", ("range", WINDOWS_US["o"])),
        OracleStream("p", payments, "ts", "ms", ("range", WINDOWS_US["p"])),
        [(("o", "id"), ("p", "order_id"))],
        OUTPUTS,
    )
    delivered = pq.read_table(rows)
    return Verdict(delivered, expected.num_rows, same_rows(delivered, expected))


def show_rows(console: Console, verdict: Verdict) -> None:
    """A few rows to look at, then the two counts and whether the rows are the same."""
    sample = table("The first of the joined rows (some columns)", *SAMPLE_COLUMNS)
    for row in verdict.delivered.slice(0, SAMPLE_ROWS).to_pylist():
        sample.add_row(*(str(row[name]) for name in SAMPLE_COLUMNS))
    console.print(sample)
    counts = table("Rows", "which", ">how many")
    counts.add_row("delivered by Narrows", f"{verdict.delivered.num_rows:,}")
    counts.add_row("expected by the oracle (brute force)", f"{verdict.expected_count:,}")
    counts.add_row("the same rows", "yes" if verdict.difference is None else "NO")
    console.print(counts)


def show_bytes(console: Console, home: str, statuses: Mapping[str, pb.StatusReply]) -> None:
    """Bytes by link, direction and kind, and their total against shipping every tuple to the home."""
    sent = {(site, link.peer): dict(link.sent_bytes) for site, status in statuses.items() for link in status.links}
    used = {kind for by_kind in sent.values() for kind, nbytes in by_kind.items() if nbytes}
    kinds = [kind for kind in KINDS if kind in used] + sorted(used - set(KINDS))
    names = {kind: kind.replace("_", " ") for kind in kinds}
    out = table("kB sent, by link and direction", "link", *(f">{names[kind]}" for kind in kinds), ">total")
    for (site, peer), by_kind in sent.items():
        cells = [_kilobytes(by_kind.get(kind, 0)) for kind in kinds]
        out.add_row(f"{site}->{peer}", *cells, _kilobytes(sum(by_kind.values())))
    console.print(out)
    console.print("\n".join(f"  {names[kind]:11} {KINDS.get(kind, '')}".rstrip() for kind in kinds))
    console.print()
    _show_total(console, home, sum(sum(by_kind.values()) for by_kind in sent.values()), statuses)


def _show_total(console: Console, home: str, total: int, statuses: Mapping[str, pb.StatusReply]) -> None:
    """One query ran, so every view the sites report is one of its streams."""
    shipping = {view.alias: view.ship_all_bytes for status in statuses.values() for view in status.views}
    everything = sum(shipping.values())
    out = table(f"Against shipping every tuple to {home}", "what", ">bytes", ">share")
    out.add_row("every tuple (needed columns, nothing around them)", size_text(everything), "100 %")
    out.add_row("sent by this plan (all of the above)", size_text(total), _share(total, everything))
    console.print(out)
    console.print(saved_text(total, everything), soft_wrap=True)


def saved_text(total: int, everything: int) -> str:
    """What the two figures say."""
    how = "(Every tuple: a sample of batches, encoded and compressed as on a link.)"
    if total >= everything:
        return f"Nothing is saved on so little data: what is around the tuples weighs more.\n{how}"
    return f"{100 * (everything - total) / everything:.0f} % less than shipping every tuple.\n{how}"


def _kilobytes(nbytes: int) -> str:
    return f"{nbytes / 1000:,.1f}" if nbytes else ""


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""
