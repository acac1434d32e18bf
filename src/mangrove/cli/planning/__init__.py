"""Commands around allocation: `mangrove plan`."""
