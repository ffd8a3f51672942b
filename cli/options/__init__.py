"""Options that several commands share, and the values that options take."""
