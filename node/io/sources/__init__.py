"""Where tuples come from: recordings, and what is in no batch."""
