"""What a gateway is asked on its management broker, and how it answers."""
