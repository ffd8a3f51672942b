"""SP-S: a full copy of the stream's window is at the carry's site, and the join is there."""

from node.core.algorithms.probe import LocalProbe as Source

Destination = None

__all__ = ["Destination", "Source"]
