"""Copies of views of other sites' streams: all of them, W', V and M, each with the owner's half and the holder's."""
