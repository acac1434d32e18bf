"""What the experiments of many seeds share: where they are played, what is seen of it, and how they end."""
