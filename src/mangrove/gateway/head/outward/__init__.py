"""From the domain's clients to other domains: what their lines mean, and the flows to which they lead."""
