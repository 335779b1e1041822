"""Accounting: what events cost, from numbers alone."""
