"""Commands about names."""
