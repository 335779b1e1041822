"""Released likelihoods of many families."""
