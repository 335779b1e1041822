"""Where the log-likelihood ratio of two points comes from: one class a source."""
