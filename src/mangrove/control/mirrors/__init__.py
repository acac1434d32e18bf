"""Which broker has each mirrored topic a second time (GEMOM §V)."""
