"""The gateway on its domain's management broker: questions that it answers, and what agents say to agents."""
