"""Pure planning: capacity, risk, allocation, mirroring, case base. No I/O, no clock."""
