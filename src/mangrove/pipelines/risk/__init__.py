"""Observed loads of plans: windows by broker and item, their tails, and scenarios for the planner."""
