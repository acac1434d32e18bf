"""Real brokers: the seam towards gateways, and for each kind of broker a folder with all that is its own."""
