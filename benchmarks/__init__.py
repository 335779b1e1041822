"""Measurements for the documentation: `python -m benchmarks.NAME`, at the root of the repository."""
