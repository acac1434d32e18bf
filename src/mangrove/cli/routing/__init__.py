"""Commands around routes: `mangrove route`."""
