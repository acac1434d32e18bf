"""What an engine was told, as values: recorded while it runs, and told again to another engine."""
