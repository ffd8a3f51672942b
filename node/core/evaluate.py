"""Expressions over rows, vectorised."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.core.kernels import KERNELS
from node.core.kernels.values import as_values
from planner.model import ColumnRef, Expr, Literal

Mask = NDArray[np.bool_]


def evaluate(expr: Expr, rows: pa.RecordBatch) -> pa.Array:
    """The expression's value for each row; columns are named ``alias.column``."""
    if isinstance(expr, ColumnRef):
        return rows.column(str(expr))
    if isinstance(expr, Literal):
        return pa.repeat(pa.scalar(expr.value, expr.type), rows.num_rows)
    args = []
    for arg in expr.args:
        args.append(as_values(evaluate(arg, rows)))
    return KERNELS[expr.function](expr, args)


def holds(expr: Expr, rows: pa.RecordBatch) -> Mask:
    """For which rows the expression is true: not false, and not null."""
    values = evaluate(expr, rows)
    if values.null_count:
        values = values.fill_null(False)
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask
