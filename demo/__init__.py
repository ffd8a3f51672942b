"""A small shop spread over three sites, to try Narrows with."""
