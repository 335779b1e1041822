"""Evaluation of results: predictions, checks and comparisons of released posteriors."""
