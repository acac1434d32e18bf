"""A whole federation on one machine, with emulated WAN links."""
