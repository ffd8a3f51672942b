"""The queries that were issued at a site: installed, gone over to another plan, their rows stored, and ended."""
