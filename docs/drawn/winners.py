"""From ``bench/results/bytes.csv``: where each algorithm wins, and of what its bytes are."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from planner.algorithms.descriptions import PLAIN, Algorithm
from planner.algorithms.kinds import Kind
from planner.explain.drawing import Canvas, Rect

#: Within this of the best, an algorithm is as good.
_AS_GOOD = 1.02
_SIZE_BYTES, _KEYS, _RATE = 142, 10_000, 0.05


@dataclass(slots=True)
class Cell:
    """What the algorithms sent for one width, match rate and number of keys."""

    tuples: int = 0
    by_algorithm: dict[Algorithm, dict[Kind, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )

    def relative(self, algorithm: Algorithm) -> float:
        """Bytes, with those of shipping rows as they are as 1."""
        sizes = self.by_algorithm
        return sum(sizes[algorithm].values()) / sum(sizes[PLAIN].values())

    @property
    def measured(self) -> list[Algorithm]:
        """Those of which there are figures: an algorithm may be newer than they are."""
        return [algorithm for algorithm in Algorithm if algorithm in self.by_algorithm]

    @property
    def best(self) -> Algorithm:
        return min(self.measured, key=self.relative)

    @property
    def as_good(self) -> int:
        """How many others are as good as the best."""
        limit = self.relative(self.best) * _AS_GOOD
        return sum(self.relative(algorithm) <= limit for algorithm in self.measured) - 1


Grid = Mapping[tuple[int, float, int], Cell]


def read_grid(path: Path) -> Grid:
    """The measured cells, by width, match rate and number of keys."""
    cells: dict[tuple[int, float, int], Cell] = defaultdict(Cell)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["table"] == "grid":
                cell = cells[int(row["width"]), float(row["match"]), int(row["distinct"])]
                cell.tuples = int(row["tuples"])
                cell.by_algorithm[Algorithm(row["algorithm"])][Kind(row["kind"])] += int(row["bytes"])
    return cells


def winners_svg(grid: Grid) -> str:
    """A map for each number of keys: the best algorithm over match rate and width."""
    widths, rates = sorted({cell[0] for cell in grid}), sorted({cell[1] for cell in grid})
    distincts = sorted({cell[2] for cell in grid})
    wide, tall, gap = 70.0, 44.0, 16.0
    panel = wide * len(widths)
    width = 64 + len(distincts) * (panel + gap)
    canvas = Canvas(width, 96 + tall * len(rates) + 44, "The best algorithm over match rate, tuple width and keys")
    canvas.text((14, 62), "in a", colour="dim")
    canvas.text((14, 77), "result", colour="dim")
    for row, rate in enumerate(rates):
        canvas.text((58, 86 + tall * row + 25), f"{rate:.0%}", anchor="end")
    for number, distinct in enumerate(distincts):
        left = 70 + number * (panel + gap)
        canvas.text((left + panel / 2, 26), f"{distinct:,} keys", size=14, bold=True, anchor="middle")
        canvas.text((left + panel / 2, 48), "bytes of a tuple", colour="dim", anchor="middle")
        for column, size in enumerate(widths):
            canvas.text((left + wide * (column + 0.5), 77), f"{size:,}", anchor="middle")
            for row, rate in enumerate(rates):
                place = Rect(left + wide * column + 2, 86 + tall * row + 2, wide - 4, tall - 4)
                _winner(canvas, place, grid[size, rate, distinct])
    y = 96 + tall * len(rates) + 22
    note = f"Figures: bytes on the wire, shipping every tuple ({PLAIN.value}) = 1. +n: so many others are within 2 %."
    canvas.text((14, y), note, colour="dim")
    return canvas.svg()


def _winner(canvas: Canvas, place: Rect, cell: Cell) -> None:
    canvas.box(place, fill="paper", edge=cell.best.spec.words.colour, width=1.5, radius=2)
    canvas.bar(Rect(place.left, place.top, 6, place.height), cell.best.spec.words.colour)
    x = place.left + 10
    canvas.text((x, place.top + 16), cell.best.value, size=12, bold=True)
    also = f" +{cell.as_good}" if cell.as_good else ""
    canvas.text((x, place.top + 31), f"{cell.relative(cell.best):.3f}{also}", size=11, colour="dim")


def kinds_svg(grid: Grid) -> str:
    """Bytes per tuple of each algorithm in one cell, by kind."""
    cell = grid[_SIZE_BYTES, _RATE, _KEYS]
    kinds = [kind for kind in Kind if any(sizes[kind] for sizes in cell.by_algorithm.values())]
    per_tuple = {each: {kind: cell.by_algorithm[each][kind] / cell.tuples for kind in kinds} for each in cell.measured}
    canvas = Canvas(760, 300, f"Bytes per tuple by kind: {_SIZE_BYTES} bytes, {_KEYS:,} keys, {_RATE:.0%} in a result")
    heading = f"Bytes on the wire per tuple: tuples of {_SIZE_BYTES} bytes, {_KEYS:,} keys, {_RATE:.0%} in a result"
    canvas.text((16, 28), heading, size=13, bold=True)
    most = max(sum(sizes.values()) for sizes in per_tuple.values())
    for row, (algorithm, sizes) in enumerate(per_tuple.items()):
        y, x = 48.0 + 34 * row, 80.0
        canvas.text((70, y + 16), algorithm.value, size=13, anchor="end", bold=True)
        for kind, size in sizes.items():
            width = 600 * size / most
            canvas.bar(Rect(x, y, width, 22), kind.value)
            x += width
        canvas.text((x + 8, y + 16), f"{sum(sizes.values()):.1f}", size=13)
    canvas.legend((80, 278), kinds)
    return canvas.svg()


def winners_table(grid: Grid) -> str:
    """For each algorithm that wins somewhere, where it does so most clearly."""
    rows = [f"| | most clearly best at | bytes, {PLAIN.value} = 1 | next best |", "|---|---|---:|---|"]
    for algorithm in Algorithm:
        places = [place for place, cell in grid.items() if cell.best is algorithm]
        if not places:
            continue
        place = max(places, key=lambda place: _lead(grid[place]))
        (width, rate, distinct), cell = place, grid[place]
        after = _second(cell)
        where = f"tuples of {width:,} bytes, {distinct:,} keys, {rate:.0%} in a result"
        figures = f"{cell.relative(algorithm):.3f} | {cell.relative(after):.3f} {after.value}"
        rows.append(f"| {algorithm.value} | {where} | {figures} |")
    return "\n".join(rows)


def _second(cell: Cell) -> Algorithm:
    return min((each for each in cell.measured if each is not cell.best), key=cell.relative)


def _lead(cell: Cell) -> float:
    return cell.relative(_second(cell)) / cell.relative(cell.best)
