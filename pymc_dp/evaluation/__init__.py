"""What is done with a result: predictions, checks and comparisons of released posteriors."""
