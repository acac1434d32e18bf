"""Commands about transforms."""
