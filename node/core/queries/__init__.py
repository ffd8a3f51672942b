"""The queries that a site takes part in, and the walks of their heads' batches."""
