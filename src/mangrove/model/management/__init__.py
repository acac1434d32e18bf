"""What gateways are told and asked on the management broker."""
