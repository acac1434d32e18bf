"""The plan in force: what it says of a topic, how it comes about, and where it comes from."""
