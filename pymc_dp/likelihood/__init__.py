"""One private release of a likelihood, and what can be done with it."""
