"""Plans: which broker carries what, who stands in for whom, and what is done in which state."""
