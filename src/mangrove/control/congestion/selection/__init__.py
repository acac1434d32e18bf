"""Ways to choose who may say how much while brokers are short, by name."""
