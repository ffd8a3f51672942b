"""SP-D: the walk goes to the stream's site as it is, and is joined there."""

from node.core.algorithms.probe import CarriedProbe as Destination
from node.core.algorithms.ship import ShipSource as Source

__all__ = ["Destination", "Source"]
