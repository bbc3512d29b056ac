"""TMX, the translation-memory exchange format: units of one meaning in several languages.

    <tu srclang="en"><tuv xml:lang="en"><seg>A <bpt i="1">&lt;b&gt;</bpt>man<ept i="1">&lt;/b&gt;</ept>.</seg></tuv>
                     <tuv xml:lang="de"><seg>Ein Mann.</seg></tuv></tu>         ->  {"en": "A man.", "de": "Ein Mann."}

What it is: `units`, an iterator over one file, by the library lxml (extra tmx), in memory bounded by one unit.
What is unusual: the markup of the program that a text came from (bpt, ept, it, ph, ut) is left out, since it is no
language. Entities are never expanded, no DTD and no address is ever followed, whatever the file asks for.
What it does not know: which of the languages are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.data.files import Lines
from regard.data.tables import Skipped
from regard.errors import DataError, MissingExtraError

CODES = ("bpt", "ept", "it", "ph", "ut")
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


@dataclass(frozen=True)
class Unit:
    """One <tu>: the line it ends on, the language it was written in (None: not said), and its texts by language."""

    line: int
    source: str | None
    texts: dict[str, str]


def units(lines: Lines, skipped: Skipped) -> Iterator[Unit]:
    """The units of a TMX file in order; in each text, a run of white space is one space.

    Raises:
        DataError: the file is not XML, or a unit is bad (an entity, a text without a language) and `skipped` is full.
        MissingExtraError: lxml is absent.
    """
    try:
        from lxml import etree
    except ImportError:
        raise MissingExtraError("lxml", "tmx", f"reading {lines.path}") from None
    parser = etree.XMLPullParser(("end",), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    default: str | None = None
    try:
        for block in lines.blocks():
            parser.feed(block)
            for _, element in parser.read_events():
                if element.tag == "header":
                    default = element.get("srclang")
                elif element.tag == "tu":
                    yield from _unit(element, default, lines, skipped)
                    element.clear()
                    while element.getprevious() is not None:  # else the body would keep a husk of every unit
                        del element.getparent()[0]
        parser.close()
    except etree.XMLSyntaxError as error:
        raise DataError("this is not XML", where=f"{lines.path}:{error.lineno}", got=error.msg,
                        mend="export the memory again as TMX 1.4, or as a table of two columns") from None  # fmt: skip


def _unit(element: Any, default: str | None, lines: Lines, skipped: Skipped) -> Iterator[Unit]:
    texts: dict[str, str] = {}
    for version in element.iter("tuv"):
        language, segment = version.get(LANGUAGE) or version.get("lang"), version.find("seg")
        text = None if segment is None else _text(segment)
        if language is None or text is None:
            what = "a text has no language" if language is None else "a text is missing, or holds an XML entity"
            skipped.add(DataError(what, where=f"{lines.path}:{element.sourceline}"))
            return
        texts.setdefault(language, text)
    source = element.get("srclang") or default
    yield Unit(element.sourceline, None if source == "*all*" else source, texts)


def _text(segment: Any) -> str | None:
    """The words of a segment; None where an entity stands for some of them."""
    parts = [segment.text or ""]
    for child in segment:
        if not isinstance(child.tag, str) and child.text and child.text.startswith("&"):
            return None
        if isinstance(child.tag, str) and child.tag not in CODES:
            inner = _text(child)
            if inner is None:
                return None
            parts.append(inner)
        parts.append(child.tail or "")
    return re.sub(r"\s+", " ", "".join(parts)).strip()
