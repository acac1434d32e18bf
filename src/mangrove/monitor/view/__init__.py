"""What pages show, as plain values: pure functions of statuses, events and the time."""
