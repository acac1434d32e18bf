"""Names of a domain's own: what is called otherwise there than in the federation."""
