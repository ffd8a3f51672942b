"""How many rows, keys and tuples a query will have, from what sites measured of its streams."""
