"""The six algorithms: one description of each, and what their messages cost on the wire."""
