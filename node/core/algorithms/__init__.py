"""The one-way join algorithms: one module each, with the half at the carry's site and the half at the stream's.

The half at the source (the carry's site) is given walks by ``arrive``; messages find their half by
head and step. Every half keeps what it waits for by walk, so walks never wait for one another.
"""
