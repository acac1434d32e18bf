"""What happened at a gateway, and why: one struct for each kind."""
