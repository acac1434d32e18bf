"""Traces by OpenTelemetry, where the standard variables ask for them; otherwise nothing of it is loaded."""
