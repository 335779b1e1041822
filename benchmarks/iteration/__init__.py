"""What an iteration of DPPenaltyMH costs."""
