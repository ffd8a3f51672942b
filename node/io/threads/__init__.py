"""Work beside the event loop: engine, files, logs."""
