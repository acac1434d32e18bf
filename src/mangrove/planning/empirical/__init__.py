"""Risk from what was observed: joint windows of the items, and tails beyond them."""
