"""The logs of a site's streams: on disk for a daemon, in memory for a run that ends with its query."""
