"""The queries that a site takes part in: prepared, started, fed, and ended."""
