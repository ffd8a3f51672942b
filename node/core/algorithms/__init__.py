"""The one-way join algorithms: one module each, named after the algorithm, with its two halves.

``Source`` is the half at the carry's site, ``Destination`` the one at the stream's, None where there is nothing to do.
What is the same for several of them is in ``half``, ``probe``, ``ship`` and ``questions``.
"""

from __future__ import annotations

from importlib import import_module

from node.core.algorithms.half import Half, HalfSite
from node.core.algorithms.probe import LocalProbe
from node.core.queries.shape import StepShape
from planner.algorithms.descriptions import Algorithm

_MODULES = {
    algorithm: import_module(f"node.core.algorithms.{algorithm.value.lower().replace('-', '_')}")
    for algorithm in Algorithm
}


def source_half(site: HalfSite, step: StepShape) -> Half:
    """The half of a step at the carry's site."""
    kind = _MODULES[step.hop.algorithm].Source if step.remote else LocalProbe
    half: Half = kind(site, step, at_source=True)
    return half


def destination_half(site: HalfSite, step: StepShape) -> Half | None:
    """The half of a step at the stream's site, if it is not that of the carry and has something to do."""
    kind = _MODULES[step.hop.algorithm].Destination if step.remote else None
    return None if kind is None else kind(site, step, at_source=False)
