"""Everything that is RabbitMQ's own; the rest of Mangrove asks `kind.RabbitKind`."""
