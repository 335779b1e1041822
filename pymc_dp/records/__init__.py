"""A PyMC model seen as records: per-record functions and the checks that make them trustworthy."""
