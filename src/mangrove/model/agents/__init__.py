"""What agents, clients and gateways say to each other on a domain's management broker."""
