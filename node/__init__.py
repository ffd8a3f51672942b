"""One Narrows daemon: the protocol core, and the IO around it."""
