"""Which messages are in a shipment, as who is about to send it knows."""

from __future__ import annotations

from node.codec import Shipment
from node.core.effects import Send
from node.core.links.link import Link
from node.core.links.link_frames import Frame, Part
from node.core.links.messages import FIRST_GENERATION, Drop, Message, Prepare, Prepared, Start
from node.core.queries.query_id import is_successor
from node.stack import SendFrame, Stack, _Connection
from tests.sim.crashes import AGAIN, TAKING_OVER


class FrameKinds:
    """Looks over the shoulder of one node."""

    def __init__(self, node: Stack) -> None:
        #: By peer and number, what a part belongs to; by shipment, in the order in which they are made, what is in it.
        self._parts: dict[str, dict[int, Message]] = {peer: {} for peer in node.links}
        #: With the shipment itself: one that never leaves is never asked for, and no other must have its id.
        self._shipments: dict[int, tuple[Shipment, tuple[Frame | Message, ...]]] = {}
        self._watch(node)

    def of(self, output: SendFrame) -> tuple[Frame | Message, ...]:
        """The messages of which parts are in a shipment, and other frames; it is asked for once."""
        _, inside = self._shipments.pop(id(output.shipment), (None, ()))
        return inside

    def _watch(self, node: Stack) -> None:
        send, flush = node._send, node._flush

        def sent(link: Link, effect: Send) -> bool:
            first, lost = link.next_part, send(link, effect)
            parts = self._parts[link.peer]
            if lost:
                parts.clear()
            parts |= dict.fromkeys(range(first, link.next_part), effect.message)
            return lost

        def flushed(peer: str, connection: _Connection) -> None:
            frames, before = list(connection.frames), len(node._out)
            flush(peer, connection)
            at = 0
            for output in node._out[before:]:
                if isinstance(output, SendFrame):
                    end = at + len(output.shipment.cuts)
                    inside = tuple(self._inside(peer, frame) for frame in frames[at:end])
                    self._shipments[id(output.shipment)] = output.shipment, inside
                    at = end

        node._send, node._flush = sent, flushed  # type: ignore[method-assign]

    def _inside(self, peer: str, frame: Frame) -> Frame | Message:
        return self._parts[peer].get(frame.seq, frame) if isinstance(frame, Part) else frame


def name_of(inside: Frame | Message) -> str:
    """What kind of thing is sent."""
    name = type(inside).__name__
    if isinstance(inside, Prepare | Prepared | Start | Drop) and is_successor(inside.query_id):
        return name + TAKING_OVER
    is_again = isinstance(inside, Prepare | Prepared | Start) and inside.generation != FIRST_GENERATION
    return name + (AGAIN if is_again else "")
