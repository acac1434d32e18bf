"""A client and its domain's agent: who it is, what it wants and carries, and what it is told to do."""
