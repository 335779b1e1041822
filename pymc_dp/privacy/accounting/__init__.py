"""What events cost: numbers only."""
