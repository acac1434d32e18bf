"""Moving a subscription, or a publisher, from one broker to another so that the application never notices."""
