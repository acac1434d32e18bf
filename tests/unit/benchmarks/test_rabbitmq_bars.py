"""The bar of the benchmark between NATS and RabbitMQ."""

from __future__ import annotations

from io import StringIO

from benchmarks import rabbitmq
from rich.console import Console


def test_each_direction_must_carry_as_much_as_the_plugin() -> None:
    rates = {rabbitmq.NATIVE: 1000.0, rabbitmq.INWARD: 1000.0, rabbitmq.OUTWARD: 999.0}
    result: dict[str, object] = {"msg_s": rates}
    (line,) = rabbitmq.missed(result)
    assert line.startswith(rabbitmq.OUTWARD)
    rates[rabbitmq.OUTWARD] = 3000.0
    assert rabbitmq.missed(result) == []
    out = StringIO()
    rabbitmq.render(result, Console(file=out, width=120))
    assert "3.00" in out.getvalue()
