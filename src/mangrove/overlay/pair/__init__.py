"""Two gateways of one domain: which of them carries, what the other one is told, and when it takes over."""
