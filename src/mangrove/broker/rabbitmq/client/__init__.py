"""RabbitMQ as clients of the SDK see it: publish, subscribe and ask by AMQP."""
