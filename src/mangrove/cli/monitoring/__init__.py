"""`mangrove monitor`, and how other commands open it; `mangrove metrics`."""
