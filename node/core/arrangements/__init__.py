"""What a site keeps of streams, in one table: rows of its own with their indexes, and copies of views of others'.

A query leases what it needs; what nobody leases is forgotten. Every kind of copy is one module with two halves:
the owner's, at the stream's site, and the holder's. The holder opens and closes a copy, the owner feeds it.
"""
