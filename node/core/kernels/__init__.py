"""The vectorised form of every function of ``planner.model.functions``, which says what they mean.

A kernel gets the call and its arguments as arrays of value types, all of one length, and gives an
array of the call's type. No kernel raises for what a row holds: what cannot be computed is null.
"""

from __future__ import annotations

from node.core.kernels import casts, logic, numbers, text, times
from node.core.kernels.values import Kernel

#: Every function by its name in a Call.
KERNELS: dict[str, Kernel] = {**logic.KERNELS, **numbers.KERNELS, **text.KERNELS, **times.KERNELS, **casts.KERNELS}
