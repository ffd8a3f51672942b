"""The table of a link's states: every pair is there or is a breach, and a link does what the table says."""

from __future__ import annotations

from itertools import product

import pytest

from node.core.errors import PeerProtocolError
from node.core.links.link import Link, LinkNews
from node.core.links.link_frames import Kind, Ping, Refuse
from node.core.links.link_states import TABLE, LinkEvent, LinkState, Reaction, step
from node.core.links.lives import Met
from tests.unit.node.core.links.test_link import hello, in_state

#: What a peer can only do on a connection, and at its time.
BREACHES = {
    (LinkState.DOWN, LinkEvent.GREETED): "link requires a connection; got a greeting",
    (LinkState.DOWN, LinkEvent.GREETED_ANEW): "link requires a connection; got a greeting of a new life",
    (LinkState.DOWN, LinkEvent.FRAME): "link requires a connection; got a frame",
    (LinkState.DOWN, LinkEvent.REFUSED): "link requires a connection; got a refusal",
    (LinkState.GREETING, LinkEvent.FRAME): "link requires Hello first; got a frame",
    (LinkState.REMEMBERING, LinkEvent.GREETED): "link requires one Hello; got a greeting",
    (LinkState.REMEMBERING, LinkEvent.GREETED_ANEW): "link requires one Hello; got a greeting of a new life",
    (LinkState.UP, LinkEvent.GREETED): "link requires one Hello; got a greeting",
    (LinkState.UP, LinkEvent.GREETED_ANEW): "link requires one Hello; got a greeting of a new life",
}
PAIRS = list(product(LinkState, LinkEvent))


def let_happen(link: Link, event: LinkEvent) -> LinkNews:  # noqa: C901 - a flat table reads best
    """Make it happen to a link that has met life 2 of its peer, or none."""
    match event:
        case LinkEvent.OPENED:
            return link.opened(0)
        case LinkEvent.CLOSED:
            link.closed("cut")
            return LinkNews([], [])
        case LinkEvent.GREETED:
            link.met = Met(2)
            return link.received(hello(2), 0)
        case LinkEvent.GREETED_ANEW:
            return link.received(hello(3), 0)
        case LinkEvent.REMEMBERED:
            return link.remembered(Met(2), 0)
        case LinkEvent.FRAME:
            return link.received(Ping(1), 0)
        case LinkEvent.REFUSED:
            return link.received(Refuse("no"), 0)
        case LinkEvent.MESSAGE:
            return link.send(Kind.CONTROL, b"a")
        case LinkEvent.BROKEN:
            return link.reset("it went wrong")
        case LinkEvent.TIME:
            return link.tick(1)


@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_every_pair_is_in_the_table_or_a_breach(state: LinkState, event: LinkEvent) -> None:
    assert ((state, event) in TABLE) != ((state, event) in BREACHES)
    if (state, event) in BREACHES:
        with pytest.raises(PeerProtocolError) as caught:
            step(state, event)
        assert str(caught.value) == BREACHES[state, event]


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if pair in TABLE])
def test_a_link_is_in_the_state_that_the_table_names(state: LinkState, event: LinkEvent) -> None:
    link = in_state(state)
    let_happen(link, event)
    assert link.state is TABLE[state, event][1]


@pytest.mark.parametrize(("state", "event"), [pair for pair in BREACHES if pair[0] is not LinkState.DOWN])
def test_a_breach_ends_the_connection_and_nothing_else(state: LinkState, event: LinkEvent) -> None:
    link = in_state(state)
    link.send(Kind.CONTROL, b"a")
    news = let_happen(link, event)
    assert news.close is not None
    assert (news.lost, news.messages, link.state) == (None, [], LinkState.DOWN)
    assert link.backlog_bytes == 1


def test_every_reaction_is_used_and_every_state_can_be_left() -> None:
    assert {reaction for reaction, _ in TABLE.values()} == set(Reaction)
    for state in LinkState:
        assert {after for (before, _), (_, after) in TABLE.items() if before is state} - {state}
