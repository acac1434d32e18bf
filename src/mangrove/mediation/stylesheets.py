"""XML by XSLT, with nothing from outside: no network, no files, no entities."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from mangrove.mediation.transformation import Apply, TransformError, UnfitMessageError


def _parser() -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, huge_tree=False
    )


def stylesheet(text: str) -> Apply:
    """An XSLT stylesheet, or TransformError."""
    try:
        parsed = etree.fromstring(text.encode(), _parser())
        for element in parsed.iter("{*}import", "{*}include"):
            raise TransformError(
                "xslt", f"line {element.sourceline}: a stylesheet takes in no other files", hint="one file"
            )
        compiled = etree.XSLT(parsed, access_control=etree.XSLTAccessControl.DENY_ALL)
    except (etree.XMLSyntaxError, etree.XSLTParseError) as error:
        raise TransformError("xslt", f"is no stylesheet: {_first_line(error)}") from None

    def apply(payload: bytes, subject: str, headers: Mapping[str, str]) -> bytes | None:
        try:
            given = etree.fromstring(payload, _parser())
        except (etree.XMLSyntaxError, ValueError) as error:
            raise UnfitMessageError(f"the payload is not XML: {_first_line(error)}") from None
        if given.getroottree().docinfo.internalDTD is not None:
            raise UnfitMessageError("the payload has a document type of its own, which may hide anything")
        try:
            return bytes(compiled(given))
        except etree.XSLTApplyError as error:
            raise UnfitMessageError(f"the stylesheet failed: {_first_line(error)}") from None

    return apply


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
