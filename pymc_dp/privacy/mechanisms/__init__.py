"""Mechanisms: objects that add noise or draw batches, and state by which event they are charged."""
