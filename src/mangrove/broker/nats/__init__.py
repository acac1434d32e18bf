"""Everything that is NATS: leaf-node protocol, configuration, server process, monitoring pages, tap."""
