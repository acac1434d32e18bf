"""The hosts of a domain: who runs their processes, what they are told, and how they agree."""
