"""Queries, plans and copies as values, and what follows from them alone."""
