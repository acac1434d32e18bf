"""What happened at an agent, and why: one struct for each kind."""
