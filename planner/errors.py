"""What can be wrong with a query before anything runs."""


class NarrowsError(Exception):
    """Root of every error this project raises on purpose."""


class QueryError(NarrowsError):
    """The query text asks for something wrong, unknown or not supported yet."""


class PlanError(NarrowsError):
    """The query is fine, but the requested plan for it is not."""
