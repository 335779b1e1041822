"""One HTML page about a result, for readers without background."""
