"""The tables and the plot of ``bench.bytes``."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from planner.algorithms.descriptions import PLAIN, Algorithm

if TYPE_CHECKING:
    from bench.bytes import Measured

#: notes/peers.md section 6, by (width, share of common keys, distinct keys): estimates without frames and compression.
PEER_ESTIMATES: dict[tuple[int, float, int], dict[str, float]] = {
    (1250, 1.0, 10): {"SM-S1": 1.001, "SM-D1": 1.000, "SM-D2": 1.001},
    (1250, 1.0, 1_000): {"SM-S1": 0.602, "SM-D1": 0.613, "SM-D2": 0.614},
    (1250, 0.1, 1_000): {"SM-S1": 0.056, "SM-D1": 0.061, "SM-D2": 0.061},
    (1250, 0.02, 1_000): {"SM-S1": 0.016, "SM-D1": 0.015, "SM-D2": 0.016},
    (142, 1.0, 1_000): {"SM-S1": 0.985, "SM-D1": 0.946, "SM-D2": 0.990},
    (142, 0.1, 1_000): {"SM-S1": 0.146, "SM-D1": 0.094, "SM-D2": 0.138},
    (142, 1.0, 100_000): {"SM-S1": 0.087, "SM-D1": 0.140, "SM-D2": 0.088},
    (142, 0.1, 100_000): {"SM-S1": 0.059, "SM-D1": 0.112, "SM-D2": 0.059},
}
_PEER_KINDS = ("keys", "key_answers", "sync", "tuples", "control", "framing")


def report(measured: Sequence[Measured], folder: Path | None) -> None:
    """Print the tables; write them, the raw figures and the plot into ``folder`` if there is one."""
    _print(measured)
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bytes.md").write_text(_markdown(measured))
    _write_csv(measured, folder / "bytes.csv")
    from bench.plots import plot_bytes  # noqa: PLC0415 - only who draws needs matplotlib

    plot_bytes(_of_grid(measured), folder / "bytes.svg")
    print(f"written: {folder}/bytes.md, bytes.csv, bytes.svg")


def _of_grid(measured: Sequence[Measured]) -> list[Measured]:
    cells = [item for item in measured if item.cell.table == "grid"]
    return sorted(cells, key=lambda item: (item.cell.width, item.cell.keys.distinct, item.cell.keys.rate))


def _of_peers(measured: Sequence[Measured]) -> list[Measured]:
    return [item for item in measured if item.cell.table == "peers"]


# -- the grid -----------------------------------------------------------------------------------


def _best(item: Measured) -> str:
    return min(item.bytes_by, key=item.total)


def _cells_of(item: Measured) -> list[str]:
    return [
        f"{item.cell.keys.distinct:,}",
        f"{item.cell.keys.rate:.0%}",
        f"{item.rate:.1%}",
        f"{item.head_rate:.1%}",
        f"{item.distinct:,}",
        f"{item.total(PLAIN) / item.tuples:.1f}",
    ]


_HEADS = ["keys", "match", "realised", "as head", "keys seen", "SP-D B/tuple"]


def _print(measured: Sequence[Measured]) -> None:
    for width, items in itertools.groupby(_of_grid(measured), lambda item: item.cell.width):
        table = Table(title=f"{width} bytes: wire bytes relative to SP-D")
        for name in (*_HEADS, *Algorithm, "lower bound"):
            table.add_column(name, justify="right")
        for item in items:
            best = _best(item)
            shown = [
                f"[bold green]{item.relative(name):.3f}[/]" if name == best else f"{item.relative(name):.3f}"
                for name in Algorithm
            ]
            table.add_row(*_cells_of(item), *shown, f"{item.bound:.3f}")
        Console(width=150).print(table)


def _markdown(measured: Sequence[Measured]) -> str:
    lines = ["# Bytes on the wire", ""]
    lines += [
        "Made by `python -m bench.bytes`. Each figure is what the link between the two streams' sites carried, both",
        "ways and all included (acknowledgements, pings, gRPC, HTTP/2), relative to SP-D on the same data; the best",
        "of a row is bold. The lower bound is every tuple that is in some result, once, encoded and compressed as on",
        "a link, without frames. `match` is the wanted share of tuples in some result, `realised` the exact one, and",
        "`as head` the share that has a match before it: the D algorithms send only these, so they can come below the",
        "bound. `keys` is the size of each stream's key domain, `keys seen` how many different ones of both streams",
        "the counted tuples have. 300 tuples per stream and tick of 1 s, [RANGE 10 S], the ticks after the first 12.",
        "",
    ]
    for width, group in itertools.groupby(_of_grid(measured), lambda item: item.cell.width):
        items = list(group)
        first = items[-1]
        packed = first.all_bytes / first.tuples
        lines += [
            f"## {width} bytes",
            "",
            f"A tuple has {first.plain_bytes:.1f} bytes as a plain row; all tuples encoded and compressed have",
            f"{packed:.1f} each (factor {first.plain_bytes / packed:.1f}).",
            "",
            *_table([*_HEADS, *Algorithm, "lower bound"], [_grid_row(item) for item in items]),
            "",
        ]
    return "\n".join(lines + _peers_markdown(_of_peers(measured)))


def _grid_row(item: Measured) -> list[str]:
    best = _best(item)
    shown = [f"**{item.relative(name):.3f}**" if name == best else f"{item.relative(name):.3f}" for name in Algorithm]
    return [*_cells_of(item), *shown, f"{item.bound:.3f}"]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heads)} |",
        f"|{'---:|' * len(heads)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


# -- compared with the estimates ----------------------------------------------------------------


def _peers_markdown(items: Sequence[Measured]) -> list[str]:
    if not items:
        return []
    rows, kinds = [], []
    for item in items:
        cell = item.cell
        estimates = PEER_ESTIMATES[cell.width, cell.keys.rate, cell.keys.distinct]
        where = [f"{cell.width} B", f"{cell.keys.distinct:,}", f"{cell.keys.rate:.0%}"]
        shown = [_beside(item.relative(name), estimates.get(name)) for name in Algorithm]
        rows.append([*where, f"{item.head_rate:.1%}", *shown, f"{item.bound:.3f}"])
        for name in ("SP-D", *estimates):
            parts = item.by_kind(name)
            shares = [f"{parts[kind] / item.tuples:.2f}" for kind in _PEER_KINDS]
            kinds.append([*where, name, *shares, f"{item.total(name) / item.tuples:.2f}"])
    return [
        "## Compared with notes/peers.md",
        "",
        "Keys evenly from `keys`, of which a share is common to both streams (`overlap`). Measured / estimated there,",
        "without frames and compression. 1250 B: 30 tuples per tick of 100 ms, [RANGE 3 S]; 142 B: 300 per tick of",
        "1 s, [RANGE 9 S].",
        "",
        *_table(["width", "keys", "overlap", "as head", *Algorithm, "lower bound"], rows),
        "",
        "The same by kind, in bytes per tuple:",
        "",
        *_table(["width", "keys", "overlap", "algorithm", *_PEER_KINDS, "all"], kinds),
        "",
    ]


def _beside(measured: float, estimate: float | None) -> str:
    return f"{measured:.3f}" if estimate is None else f"{measured:.3f} / {estimate:.3f}"


# -- raw figures --------------------------------------------------------------------------------


def _write_csv(measured: Sequence[Measured], path: Path) -> None:
    heads = ["table", "width", "match", "distinct", "realised", "as_head", "keys_seen", "tuples", "rows"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*heads, "plain_bytes", "all_bytes", "bound_bytes", "algorithm", "direction", "kind", "bytes"])
        for item in [*_of_grid(measured), *_of_peers(measured)]:
            cell = item.cell
            common = [cell.table, cell.width, cell.keys.rate, cell.keys.distinct, f"{item.rate:.5f}"]
            common += [f"{item.head_rate:.5f}", item.distinct, item.tuples, item.rows, f"{item.plain_bytes:.2f}"]
            common += [item.all_bytes, item.bound_bytes]
            for algorithm, counted in item.bytes_by.items():
                for (direction, kind), size in counted.items():
                    writer.writerow([*common, algorithm, direction, kind, size])
