"""What happened on this host, read from its event logs for those who listen elsewhere."""
