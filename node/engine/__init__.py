"""Engines that run a site's local joins in this process."""
