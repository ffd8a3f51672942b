"""Local streams: event time cut into ticks, batches sealed, and what of a stream a query sees."""
