"""A package that adds a method, a logger and a data set to josrc, by entry points alone."""
