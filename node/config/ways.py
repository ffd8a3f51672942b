"""Tables that two sites name, such as [link.A.B]: something about the way from A to B."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from node.config.problems import one_of, shown
from node.config.table import Table


def ways(table: Table, sources: Iterable[str], sites: list[str]) -> Iterator[tuple[str, str, Table]]:
    """Every table below those of ``sources``; a target that is no other site is noted."""
    for source in sources:
        for target, way in table.tables(source):
            if target not in sites or target == source:
                others = [site for site in sites if site != source]
                required = f"another site: {one_of(others, target)}" if others else "another site"
                table.table(source).note(target, required, shown(target))
            yield source, target, way
