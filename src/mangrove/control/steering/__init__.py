"""New subscribers are led to a linked domain that publishes what they ask for (ePEER §6.2.2)."""
