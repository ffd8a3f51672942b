"""Where tuples enter and leave a site."""
