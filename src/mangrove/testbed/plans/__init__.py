"""From load to plan and back: whether a plan does to real brokers what it promised."""
