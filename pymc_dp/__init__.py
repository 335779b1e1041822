"""Differentially private Markov chain Monte Carlo for PyMC."""

__version__ = "0.1.0.dev0"
