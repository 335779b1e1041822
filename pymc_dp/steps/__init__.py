"""The private step methods, one algorithm a file."""
