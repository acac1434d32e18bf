"""Bodies of confidential topics: sealed where they begin, opened where they are delivered, opaque between."""
