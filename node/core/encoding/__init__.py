"""Rows and numbers as bytes."""
