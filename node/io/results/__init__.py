"""Where rows go: the spool on disk, and whoever follows a query."""
