"""RabbitMQs of ours: their files, users and processes."""
