"""Trace contexts: found in bodies of anything, made as the W3C says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.host.tracing.trace_context import MAX_FOUND, TraceContext, contexts_in
from mangrove.host.tracing.tracer import DEFAULT_RATIO, Tracer, sampled_ratio, tracing_asked_for

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TEXT = f"00-{TRACE}-{SPAN}-01"


def test_a_context_is_written_as_it_was_read() -> None:
    context = TraceContext.parse(TEXT)
    assert context is not None
    assert str(context) == TEXT
    assert context.child().trace_id == context.trace_id
    assert context.child().span_id != context.span_id


@pytest.mark.parametrize(
    "text",
    [
        *("", "00", TEXT[:-1], TEXT.upper(), f"01-{TRACE}-{SPAN}-01x", f"00-{'0' * 32}-{SPAN}-01"),
        *(f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}-00", "00-" + "g" * 32 + f"-{SPAN}-01"),
    ],
)
def test_what_is_malformed_or_not_sampled_is_none(text: str) -> None:
    assert TraceContext.parse(text) is None
    assert list(contexts_in(f"NATS/1.0\r\ntraceparent: {text}\r\n\r\n".encode())) == []


@pytest.mark.parametrize("name", ["traceparent", "Traceparent"])
@pytest.mark.parametrize("space", ["", " "])
def test_contexts_are_found_wherever_they_are(name: str, space: str) -> None:
    one = f"NATS/1.0\r\na: b\r\n{name}:{space}{TEXT}\r\n\r\nbody".encode()
    assert [str(each) for each in contexts_in(b"x" * 1000 + one + one)] == [TEXT, TEXT]


def test_no_frame_costs_more_than_so_many() -> None:
    one = f"traceparent: {TEXT}\r\n".encode()
    assert len(list(contexts_in(one * 1000))) == MAX_FOUND


@given(st.binary(max_size=200))
def test_garbage_is_no_context(body: bytes) -> None:
    assert list(contexts_in(body)) == []


def test_nothing_is_traced_unless_the_variables_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "TRACES_ENDPOINT"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    assert Tracer.from_environment("x") is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    assert tracing_asked_for()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert not tracing_asked_for()
    monkeypatch.delenv("OTEL_TRACES_EXPORTER")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not tracing_asked_for()


@pytest.mark.parametrize(
    ("sampler", "argument", "ratio"),
    [
        ("", "", DEFAULT_RATIO),
        ("always_on", "", 1.0),
        ("parentbased_always_off", "", 0.0),
        ("parentbased_traceidratio", "0.25", 0.25),
        ("traceidratio", "7", 1.0),
        ("traceidratio", "much", DEFAULT_RATIO),
    ],
)
def test_samplers(sampler: str, argument: str, ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    assert sampled_ratio() == ratio
