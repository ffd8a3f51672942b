"""The bugs, by the part of the system that they are in."""
