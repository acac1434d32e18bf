"""One HTML page of what the jobs found: everything inside it, nothing from elsewhere."""
