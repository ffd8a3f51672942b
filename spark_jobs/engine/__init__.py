"""A site's joins on Spark: tables in its workers, one job a turn."""
