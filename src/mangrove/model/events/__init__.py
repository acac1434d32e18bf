"""Events: what happened at a gateway or an agent, and why; the kinds are in the rooms they happen in."""
