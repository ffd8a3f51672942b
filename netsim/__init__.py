"""A wide area network between sites of one machine."""
