"""The protocol: events in, effects out. No clock, socket, file, thread or randomness."""
