"""What leading new subscribers to the domains of their publishers is worth, by the agents' own code."""
