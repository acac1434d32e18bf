"""Machines on one machine: network namespaces that can be cut off, and faults of whole hosts."""
