"""Join keys as numbers: tables, books, codes, and arrays of bits."""
