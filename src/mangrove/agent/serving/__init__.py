"""What the agent daemon is made of: the brain's messages in and out, its lease, its store and its brokers."""
