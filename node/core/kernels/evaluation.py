"""Expressions over rows, vectorised."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.core.errors import QueryFailedError
from node.core.kernels import KERNELS
from node.core.kernels.values import as_values
from planner.model.query import ColumnRef, Expr, Literal

Mask = NDArray[np.bool_]


class EvaluationError(QueryFailedError):
    """An expression cannot be computed for some rows."""


def evaluate(expr: Expr, rows: pa.RecordBatch) -> pa.Array:
    """The expression's value for each row; columns are named ``alias.column``.

    Raises EvaluationError, and nothing else. For an expression that was parsed here that is a bug of a kernel; but it
    may be a peer's, and Arrow has limits of its own. It must cost the query that has it, and not the daemon.
    """
    try:
        return _evaluate(expr, rows)
    except Exception as error:
        # Kernels, and Arrow below them, raise what they like about arguments that they were not made for.
        raise EvaluationError(f"an expression cannot be computed: {error!r}") from error


def _evaluate(expr: Expr, rows: pa.RecordBatch) -> pa.Array:
    if isinstance(expr, ColumnRef):
        return rows.column(str(expr))
    if isinstance(expr, Literal):
        return pa.repeat(pa.scalar(expr.value, expr.type), rows.num_rows)
    args = []
    for arg in expr.args:
        args.append(as_values(_evaluate(arg, rows)))
    return KERNELS[expr.function](expr, args)


def holds(expr: Expr, rows: pa.RecordBatch) -> Mask:
    """For which rows the expression is true: not false, and not null.

    Raises EvaluationError.
    """
    values = evaluate(expr, rows)
    if values.null_count:
        values = values.fill_null(False)
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask
