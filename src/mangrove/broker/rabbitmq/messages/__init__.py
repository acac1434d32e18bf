"""Messages on their way through the border: translated, confirmed, and told apart when they come again."""
