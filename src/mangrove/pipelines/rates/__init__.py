"""From rows of `topic_rates` to sums over windows of time."""
