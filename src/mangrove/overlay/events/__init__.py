"""What happened at a gateway, and why: one struct for each kind, and the log that numbers them."""
