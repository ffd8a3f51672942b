"""From what a client asks for to a plan."""
