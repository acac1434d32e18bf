"""The status stream of a domain: what its parts say of themselves while somebody listens, by what changed."""
