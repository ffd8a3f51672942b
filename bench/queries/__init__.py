"""Many queries beside one: ``make bench-queries``."""
