"""A federation's document: what is agreed on, version by version, while it runs."""
