"""Everyday models as people first write them, with data drawn at parameters near their prior's centre."""
