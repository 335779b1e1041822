"""Control variates on logistic, Poisson, linear and other models: errors, coverage, speed."""
