"""One module for each command: what can be typed, what its help says, and what it calls."""
