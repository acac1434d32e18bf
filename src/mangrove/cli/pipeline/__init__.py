"""Commands around the telemetry lake: `mangrove pipeline` and `mangrove calibrate`."""
