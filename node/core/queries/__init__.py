"""What a query is at one of its sites, a run: its shape, its leases, and the walks of its heads' batches."""
