"""A domain of several agents: they die, stall, are cut off and hand over, while plans are put in force."""
