"""What adds noise and draws batches, and states as which event."""
