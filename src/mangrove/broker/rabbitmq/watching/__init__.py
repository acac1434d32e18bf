"""How a RabbitMQ is, and whether it can be joined."""
