"""The audit log: who connected, was refused, or changed something; entries of a chain, and its check."""
