"""Commands about the audit log."""
