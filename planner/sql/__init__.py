"""From the text of a query to its meaning, with errors that point into the text."""
