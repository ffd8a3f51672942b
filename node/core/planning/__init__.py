"""What a site measures and tells so that a query can be planned."""
