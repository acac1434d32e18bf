"""Documents in payloads: read, filtered, changed, and written in the same format or the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mangrove.mediation.transformation import Apply, TransformError, UnfitMessageError
from mangrove.model.mediation.transform import Format, Transform
from mangrove.model.unreadable import UNREADABLE

Step = Callable[[Any], Any]

DECODE: dict[Format, Callable[[bytes], Any]] = {
    Format.JSON: msgspec.json.Decoder().decode,
    Format.MSGPACK: msgspec.msgpack.Decoder().decode,
}
ENCODE: dict[Format, Callable[[Any], bytes]] = {
    Format.JSON: msgspec.json.Encoder().encode,
    Format.MSGPACK: msgspec.msgpack.Encoder().encode,
}


def expression(key: str, text: str) -> Step:
    """A JMESPath expression, or TransformError."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        compiled = jmespath.compile(text)
    except JMESPathError as error:
        problem = " ".join(str(error).split())
        raise TransformError(key, f"{text!r} is no JMESPath expression: {problem}") from None
    except RecursionError:
        raise TransformError(key, f"{text[:40]!r}… is nested too deeply for a JMESPath expression") from None
    options = jmespath.Options(dict_cls=dict)

    def search(value: Any) -> Any:
        try:
            return compiled.search(value, options)
        except JMESPathError as error:
            raise UnfitMessageError(f"`{key}` cannot be applied: {error}") from None

    return search


def document(transform: Transform) -> Apply:
    """What becomes of a payload that is a document."""
    decode, name = DECODE[transform.decode], transform.decode.value
    target = transform.encode or transform.decode
    encode = ENCODE[target]
    keep = expression("keep", transform.keep) if transform.keep else None
    steps: list[Step] = []
    if transform.select:
        steps.append(expression("select", transform.select))
    if transform.pick or transform.rename:
        steps.append(_fields(transform.pick, transform.rename))

    def apply(payload: bytes, subject: str, headers: Mapping[str, str]) -> bytes | None:
        try:
            value = decode(payload)
        except UNREADABLE as error:
            raise UnfitMessageError(f"the payload is not {name}: {error}") from None
        if keep is not None and not _holds(keep(value)):
            return None
        for step in steps:
            value = step(value)
        try:
            return encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UnfitMessageError(f"the result cannot be written as {target.value}: {error}") from None

    return apply


def _holds(value: Any) -> bool:
    """What JMESPath takes for true: all but false, null and what is empty. 0 is a number like any other."""
    return value is not None and value is not False and value not in ("", [], {})


def _fields(pick: tuple[str, ...], rename: Mapping[str, str]) -> Step:
    def change(value: Any) -> Any:
        if not isinstance(value, dict):
            raise UnfitMessageError("`pick` and `rename` need a document with fields")
        kept = {field: value[field] for field in pick if field in value} if pick else value
        changed = {rename.get(field, field): content for field, content in kept.items()}
        if len(changed) < len(kept):
            raise UnfitMessageError("`rename` gives a name that another field has already")
        return changed

    return change
