"""The audit log on disk: a file for each process, with a hash chain, within bounds."""
