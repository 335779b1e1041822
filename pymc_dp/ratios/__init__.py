"""Sources of the log-likelihood ratio of two points, one class for each."""
