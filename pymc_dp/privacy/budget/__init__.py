"""Budgets: what a call may spend, and what it has spent."""
