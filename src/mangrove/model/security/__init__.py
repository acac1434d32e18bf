"""Who is who in a federation, and whether that is proved: values that all processes share."""
