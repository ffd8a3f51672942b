"""Tree ordering (Sect. 4.2 of the paper): planned and costed, not chosen (``planner.model.kept`` has how one runs).

In a left-deep tree the rows of a subtree are a stream of their own, with a window of its own at the site where
they come into being. Each node joins that stream X with one more stream S by two one-way joins: new rows of X look
into S's window, new tuples of S into X's. So intermediate rows are made once, where linear ordering makes them anew
for each head; but both joins must end at the same site, and every tree has only one order for all heads.

Costs are those of ``planner.cost.wire_model``. X's rows come in the batches of the heads they come from. The figures
for a stream that looks into X's window are taken from what its own walks would find.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.algorithms.descriptions import PLAIN, Algorithm
from planner.algorithms.framing import FRAMING_BYTES
from planner.algorithms.kinds import Kind
from planner.algorithms.traffic import MESSAGE_BYTES, TreeLoad, asked
from planner.cost.wire_model import WireSpace

_AT_SOURCE = tuple(algorithm for algorithm in Algorithm if algorithm.at_source)
_AT_OWNER = tuple(algorithm for algorithm in Algorithm if not algorithm.at_source)


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One more stream joined to the rows of the subtree; by what, each way, and where the rows are then."""

    alias: str
    from_tree: Algorithm
    from_stream: Algorithm
    site: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A left-deep tree, from its first stream on, and its cost."""

    first: str
    nodes: tuple[TreeNode, ...]
    cost: float

    def __str__(self) -> str:
        text = self.first
        for node in self.nodes:
            text = f"({text} >< {node.alias} by {node.from_tree.value}/{node.from_stream.value} at {node.site})"
        return text


@dataclass(frozen=True, slots=True)
class _Way:
    """One of the two joins of a node."""

    cost: float
    algorithm: Algorithm


def best_tree(space: WireSpace) -> Tree:
    """The cheapest left-deep tree, by dynamic programming over the set of joined streams and their site."""
    layer = {(1 << number, site): Tree(space.aliases[number], (), 0.0) for number, site in enumerate(space.sites)}
    for _ in range(len(space.aliases) - 1):
        following: dict[tuple[int, str], Tree] = {}
        for (joined, site), tree in layer.items():
            for number in space.candidates(joined):
                for node, cost in _nodes(space, joined, site, number):
                    place = (joined | 1 << number, node.site)
                    if place not in following or tree.cost + cost < following[place].cost:
                        following[place] = Tree(tree.first, (*tree.nodes, node), tree.cost + cost)
        layer = following
    ended = [
        Tree(tree.first, tree.nodes, tree.cost + sum(space.closing(head, site) for head in range(len(space.aliases))))
        for (_, site), tree in layer.items()
    ]
    return min(ended, key=lambda tree: tree.cost)


def _nodes(space: WireSpace, joined: int, site: str, number: int) -> list[tuple[TreeNode, float]]:
    """The ways to join one more stream: at the subtree's site, at the stream's, or both shipped to the sink."""
    alias, owner = space.aliases[number], space.sites[number]
    if site == owner:
        return [(TreeNode(alias, PLAIN, PLAIN, site), 0.0)]
    found, load = [], _load(space, joined, number)
    for place, outward, inward in ((site, _AT_SOURCE, _AT_OWNER), (owner, _AT_OWNER, _AT_SOURCE)):
        from_tree = min((_from_tree(space, joined, site, number, name) for name in outward), key=lambda way: way.cost)
        from_stream = min(
            (_from_stream(space, joined, site, number, name, load) for name in inward), key=lambda way: way.cost
        )
        node = TreeNode(alias, from_tree.algorithm, from_stream.algorithm, place)
        found.append((node, from_tree.cost + from_stream.cost))
    if space.sink not in (site, owner):
        whole = load.rows * space.links.weight(site, space.sink) + load.tuples * space.links.weight(owner, space.sink)
        found.append((TreeNode(alias, PLAIN, PLAIN, space.sink), whole))
    return found


def _heads(joined: int) -> list[int]:
    return [number for number in range(joined.bit_length()) if joined >> number & 1]


def _from_tree(space: WireSpace, joined: int, site: str, number: int, algorithm: Algorithm) -> _Way:
    """New rows of the subtree look into the stream's window, as the heads of the subtree would."""
    moves = [
        move
        for head in _heads(joined)
        for move in space.every_move(head, joined, site, number)
        if move.algorithm is algorithm
    ]
    if not moves:
        return _Way(float("inf"), algorithm)
    return _Way(sum(move.cost for move in moves) + moves[0].copy_cost, algorithm)


def _from_stream(space: WireSpace, joined: int, site: str, number: int, algorithm: Algorithm, load: TreeLoad) -> _Way:
    """New tuples of the stream look into the window of the subtree's rows."""
    tree, owner = algorithm.spec.tree, space.sites[number]
    if tree is None or (algorithm.spec.needs_key and not _partners(space, joined, number)):
        return _Way(float("inf"), algorithm)
    there, back = tree(load)
    return _Way(there * space.links.weight(owner, site) + back * space.links.weight(site, owner), algorithm)


def _load(space: WireSpace, joined: int, number: int) -> TreeLoad:
    """What new tuples of a stream have to ask of the subtree's rows."""
    estimator, partners = space.estimator, _partners(space, joined, number)
    found = estimator.carry(number, joined | 1 << number)
    made = _rows(space, joined)
    steps = [space.step_bytes(number, 1 << number, other) for other in partners]
    questions = [size for step in steps for kind, size in asked(step.load.stats, step.load.sizes) if kind is Kind.KEYS]
    names = tuple(dict.fromkeys(name for other in partners for name in _key_columns(space, other, number)))
    answered = min(1.0, found.rows / made) if made > 0 else 0.0
    return TreeLoad(
        tuples=_tuples_bytes(space, number),
        rows=_rows_bytes(space, joined),
        asked=min(questions, default=0.0),
        keys=min((step.stats.keys for step in steps), default=0.0),
        matching=found.heads * space.sizes.tuple_bytes(number),
        answers=made * answered * _row_bytes(space, joined),
        born=min([made, *(estimator.keys(other, (name,)).born for other, name in names)]),
        message=(MESSAGE_BYTES + FRAMING_BYTES) / estimator.batches_s[number],
    )


def _partners(space: WireSpace, joined: int, number: int) -> list[int]:
    """The streams of a subtree that an equality links to one more."""
    return [other for other in _heads(joined) if space.step_bytes(number, 1 << number, other).keys]


def _key_columns(space: WireSpace, other: int, number: int) -> list[tuple[int, str]]:
    pair = (space.aliases[other], space.aliases[number])
    edges = [edge for edge in space.query.edges if edge.joins(pair[0], (pair[1],))]
    return [(other, edge.column_of(pair[0]).column) for edge in edges]


def _rows(space: WireSpace, joined: int) -> float:
    """Rows of a subtree in a second, from all of its heads."""
    return sum(space.estimator.rows(head, joined) for head in _heads(joined))


def _row_bytes(space: WireSpace, joined: int) -> float:
    return space.sizes.row_bytes(_heads(joined)[0], joined)[0]


def _rows_bytes(space: WireSpace, joined: int) -> float:
    """A subtree's rows, all of them, to be kept at another site: empty batches too, as heartbeats."""
    messages = max(1 / space.estimator.batches_s[head] for head in _heads(joined))
    return _rows(space, joined) * _row_bytes(space, joined) + messages * (MESSAGE_BYTES + FRAMING_BYTES)


def _tuples_bytes(space: WireSpace, number: int) -> float:
    """A stream's tuples, all of them."""
    estimator = space.estimator
    messages = (MESSAGE_BYTES + FRAMING_BYTES) / estimator.batches_s[number]
    return estimator.rates[number] * space.sizes.tuple_bytes(number) + messages
