"""What a process tells by HTTP: whether it lives, whether it is ready, and what it counts."""
