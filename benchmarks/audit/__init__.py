"""Faults planted in every sampler, and whether the audit finds them."""
