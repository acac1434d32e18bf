"""What to move from an overloaded broker, and where to: the problem, and one module for each method."""
