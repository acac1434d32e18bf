"""Warning centres on the day of an earthquake: everything that Mangrove does, in one run."""
