"""A query of a scenario as data: the text for the system, the parts of it for the oracle, and the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from planner.model.beginning import DEFAULT_BEGINNING, Beginning
from planner.model.kept import tree_plan
from planner.model.plans import checked_plan, parse_policy
from planner.model.query import Algorithm, JoinQuery, KeptJoin, Plan, Sequence, Step
from tests.sim.scenarios.predicates import Col, Predicate, Term

#: ("range", milliseconds) or ("rows", tuples)
Window = tuple[Literal["range", "rows"], int]
Column = tuple[str, str]
Edge = tuple[Column, Column]
ALGORITHMS = tuple(algorithm.value for algorithm in Algorithm)


@dataclass(frozen=True)
class Ref:
    """A stream of the query."""

    alias: str
    stream: str
    window: Window
    where: Predicate | None = None

    @property
    def text(self) -> str:
        kind, size = self.window
        window = f"RANGE {size} MS" if kind == "range" else f"ROWS {size}"
        # Quoted: a stream may be called as a word of SQL is.
        return f'"{self.stream}" [{window}] AS {self.alias}'


@dataclass(frozen=True)
class Way:
    """How the walks of one head go: where they start (None: at home), and the steps as (alias, algorithm)."""

    head: str
    steps: tuple[tuple[str, str], ...]
    start: str | None = None


@dataclass(frozen=True)
class Replan:
    """Another plan, once sources were read that often, all together."""

    after_reads: int
    ways: tuple[Way, ...]
    #: Joins that it keeps; ``ways`` are then those of the query that reads them.
    kept: tuple[Kept, ...] = ()
    #: As if nothing went on by the plan before.
    at_once: bool = False


@dataclass(frozen=True)
class Kept:
    """A join of some streams that is kept at a site, and how its own walks go."""

    name: str
    aliases: tuple[str, ...]
    site: str
    ways: tuple[Way, ...]


@dataclass(frozen=True)
class QuerySpec:
    """One query, when it comes and when it goes."""

    refs: tuple[Ref, ...]
    edges: tuple[Edge, ...]
    outputs: tuple[tuple[str, Term], ...]
    sink: str
    ways: tuple[Way, ...]
    residuals: tuple[Predicate, ...] = ()
    policy: str = "frontier"
    #: Streams with commas between them and all conditions in WHERE, or joined with ON.
    commas: bool = False
    #: Issued, and dropped, when sources were read that often, all together; None: never dropped.
    after_reads: int = 0
    drop_after_reads: int | None = None
    #: Dropped so long after it was issued.
    drop_after_us: int | None = None
    #: Given up by one of its sites alone, so long after it was issued.
    given_up: tuple[str, int] | None = None
    beginning: Beginning = DEFAULT_BEGINNING
    #: Plans that it is to go over to while it runs, one after the other.
    replans: tuple[Replan, ...] = ()
    #: Joins that are kept; ``ways`` are then those of the query that reads them.
    kept: tuple[Kept, ...] = ()

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(ref.alias for ref in self.refs)

    @property
    def text(self) -> str:
        outputs = ", ".join(f"{term.sql()} AS {name}" for name, term in self.outputs)
        where = [ref.where.sql() for ref in self.refs if ref.where is not None]
        where += [residual.sql() for residual in self.residuals]
        if self.commas:
            origin = ", ".join(ref.text for ref in self.refs)
            where = [_equality(edge) for edge in self.edges] + where
        else:
            origin = " ".join(self._joined(place) for place in range(len(self.refs)))
        return f"SELECT {outputs} FROM {origin}" + (f" WHERE {' AND '.join(where)}" if where else "")

    def _joined(self, place: int) -> str:
        ref = self.refs[place]
        if place == 0:
            return ref.text
        before = self.aliases[:place]
        due = [
            edge
            for edge in self.edges
            if ref.alias in (edge[0][0], edge[1][0]) and (edge[0][0] in before or edge[1][0] in before)
        ]
        if not due:
            return f"CROSS JOIN {ref.text}"
        return f"JOIN {ref.text} ON {' AND '.join(map(_equality, due))}"

    def plan(self, query: JoinQuery) -> Plan:
        """The first plan for the query that the text was read as."""
        policy = parse_policy(self.policy)
        if self.kept:
            joins = (KeptJoin(join.name, join.aliases, join.site, _sequences(join.ways)) for join in self.kept)
            return tree_plan(query, self.sink, _sequences(self.ways), tuple(joins), policy)
        return checked_plan(Plan(query, self.sink, _sequences(self.ways), policy))

    def by(self, replan: Replan) -> QuerySpec:
        """The query with another plan."""
        return replace(self, ways=replan.ways, kept=replan.kept)

    @property
    def has_trees(self) -> bool:
        """Whether it keeps joins by any of its plans."""
        return any(kept for kept in (self.kept, *(replan.kept for replan in self.replans)))

    def inner(self, join: Kept) -> QuerySpec:
        """The query that makes a kept join."""
        refs = tuple(ref for ref in self.refs if ref.alias in join.aliases)
        edges = tuple(edge for edge in _closed(self.edges) if {edge[0][0], edge[1][0]} <= set(join.aliases))
        outputs = tuple((f"{alias}_n", Col(alias, "n")) for alias in join.aliases)
        return QuerySpec(refs, edges, outputs, join.site, join.ways)

    def outer(self, query_id: str) -> QuerySpec:
        """The query that reads the kept joins, which are streams named after it."""
        owners = {alias: join for join in self.kept for alias in join.aliases}
        refs: dict[str, Ref] = {}
        for ref in self.refs:
            join = owners.get(ref.alias)
            if join is None:
                refs[ref.alias] = ref
            else:
                refs[join.name] = Ref(join.name, f"{query_id}.{join.name}", ref.window)

        def mapped(column: Column) -> Column:
            join = owners.get(column[0])
            return column if join is None else (join.name, f"{column[0]}.{column[1]}")

        edges = [(mapped(left), mapped(right)) for left, right in _closed(self.edges)]
        outer = tuple(edge for edge in edges if edge[0][0] != edge[1][0])
        return replace(self, refs=tuple(refs.values()), edges=outer, kept=())

    def linked(self, alias: str, others: tuple[str, ...]) -> bool:
        """Whether an equality, written or implied, links a stream with one of the others."""
        groups = equal_columns(self.edges)
        return any({alias} | {other} <= {column[0] for column in group} for group in groups for other in others)

    def without(self, alias: str) -> QuerySpec:
        """The query without one of its streams, as far as it makes sense then."""
        spec = replace(
            self,
            refs=tuple(ref for ref in self.refs if ref.alias != alias),
            edges=tuple(edge for edge in self.edges if alias not in (edge[0][0], edge[1][0])),
            residuals=tuple(term for term in self.residuals if f"{alias}." not in term.sql()),
            outputs=tuple((name, term) for name, term in self.outputs if f"{alias}." not in term.sql()),
        )
        outputs = spec.outputs or tuple((f"{other}_n", Col(other, "n")) for other in spec.aliases)
        replans = tuple(replace(replan, ways=spec.ways_without(replan.ways, alias)) for replan in self.replans)
        return replace(spec, ways=spec.ways_without(self.ways, alias), replans=replans, outputs=outputs)

    def ways_without(self, ways: tuple[Way, ...], alias: str) -> tuple[Way, ...]:
        """The ways of a query that had one more stream, as far as they make sense without that."""
        return tuple(self._without_stop(way, alias) for way in ways if way.head != alias)

    def _without_stop(self, way: Way, alias: str) -> Way:
        steps: list[tuple[str, str]] = []
        for other, name in way.steps:
            if other != alias:
                before = (way.head, *(step[0] for step in steps))
                linked = self.linked(other, before)
                steps.append((other, name if linked or name in ("SP-S", "SP-D") else "SP-D"))
        return replace(way, steps=tuple(steps))


def equal_columns(edges: tuple[Edge, ...]) -> list[set[Column]]:
    """The columns that the edges make equal, as groups."""
    groups: list[set[Column]] = []
    for edge in edges:
        touched = [group for group in groups if group & set(edge)]
        groups = [group for group in groups if group not in touched] + [set(edge).union(*touched)]
    return groups


def _closed(edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """The edges with those that follow from them."""
    groups = (sorted(group) for group in equal_columns(edges))
    return tuple((left, right) for group in groups for left, right in combinations(group, 2) if left[0] != right[0])


def _sequences(ways: tuple[Way, ...]) -> tuple[Sequence, ...]:
    return tuple(
        Sequence(way.head, tuple(Step(alias, Algorithm(name)) for alias, name in way.steps), way.start) for way in ways
    )


def _equality(edge: Edge) -> str:
    (left, left_column), (right, right_column) = edge
    return f"{left}.{left_column} = {right}.{right_column}"


def two_way_query(
    streams: tuple[str, str], windows: tuple[Window, Window], sink: str, algorithms: tuple[str, str], policy: str
) -> QuerySpec:
    """Two streams on one key, an algorithm for each head."""
    left, right = streams
    return QuerySpec(
        refs=(Ref("a", left, windows[0]), Ref("b", right, windows[1])),
        edges=((("a", "key"), ("b", "key")),),
        outputs=(
            ("an", Col("a", "n")),
            ("k", Col("a", "key")),
            ("at", Col("a", "text")),
            ("bn", Col("b", "n")),
            ("bt", Col("b", "text")),
        ),
        sink=sink,
        ways=(Way("a", (("b", algorithms[0]),)), Way("b", (("a", algorithms[1]),))),
        policy=policy,
    )
