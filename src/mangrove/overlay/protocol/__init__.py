"""What gateways say to each other: frames, bodies, control messages, greeting, pieces."""
