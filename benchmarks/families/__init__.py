"""Control variates on many likelihoods."""
