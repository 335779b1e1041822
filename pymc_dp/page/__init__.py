"""One page about a result, for readers who were not there."""
