"""What others do, as the baselines of our experiments."""
