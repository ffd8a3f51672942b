"""What can be wrong with a query before anything runs."""


class NarrowsError(Exception):
    """Root of every error that this project tells its users about.

    What a module raises for itself to catch (a type that does not fit, a quote that is not closed) is not below it.
    """


class QueryError(NarrowsError):
    """The query text asks for something wrong, unknown or not supported yet."""


class UnknownStreamError(QueryError):
    """The query names a stream that nobody is known to have; a site that has it may only be out of reach."""


class PlanError(NarrowsError):
    """The query is fine, but the requested plan for it is not."""
