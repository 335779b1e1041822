"""Privacy accounting, randomness and budgets; imports neither pymc nor pytensor."""
