"""Twelve real data sets that packages ship, private beside not."""
