"""TMX: the texts of the wanted languages, without markup; and nothing that an XML file could do to its reader."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from regard.data import Pairs, read_pairs
from regard.errors import DataError, MissingExtraError

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" datatype="plaintext"/><body>
"""
TAIL = "</body></tmx>\n"


def unit(*texts: tuple[str, str], more: str = "") -> str:
    inner = "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in texts)
    return f"<tu{more}>{inner}</tu>\n"


def read(tmp_path: Path, text: str | bytes, **options: object) -> Pairs:
    path = tmp_path / "a.tmx"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_pairs([path], **options)  # type: ignore[arg-type]


def test_two_languages_are_one_direction(tmp_path: Path) -> None:
    text = HEAD + unit(("en", "A man."), ("de", "Ein Mann.")) + unit(("de", "R&amp;B"), ("en", "R &amp; B")) + TAIL
    pairs = read(tmp_path, text)
    assert list(zip(pairs.source, pairs.target, strict=True)) == [("A man.", "Ein Mann."), ("R & B", "R&B")]
    assert (pairs.languages, pairs.to, pairs.lines) == (("en", "de"), None, [4, 5])
    assert read(tmp_path, gzip.compress(text.encode())).source == pairs.source
    assert read(tmp_path, text.replace("UTF-8", "UTF-16").encode("utf-16")).target == pairs.target
    turned = read(tmp_path, text, languages=("de", "en"))
    assert (turned.source, turned.languages) == (pairs.target, ("de", "en"))


def test_several_languages_are_several_targets(tmp_path: Path) -> None:
    three = unit(("EN-US", "A man."), ("de", "Ein Mann."), ("fr", "Un homme."))
    text = HEAD + three + unit(("en", "Yes."), ("fr", "Oui.")) + TAIL
    pairs = read(tmp_path, text)
    assert pairs.source == ["A man.", "A man.", "Yes."] and pairs.to == ["de", "fr", "fr"]
    french = read(tmp_path, text, languages=("en", "fr"))
    assert (french.target, french.to, french.languages) == (["Un homme.", "Oui."], None, ("en", "fr"))
    with pytest.raises(DataError, match=r"(?s)a\.tmx:4.*got: EN-US de fr.*--languages en,de"):
        read(tmp_path, text.replace('srclang="en"', 'srclang="*all*"'))


def test_a_language_and_its_region_are_one_target(tmp_path: Path) -> None:
    """A memory of many years names both; two regions without the language itself are two."""
    one, two = unit(("en", "A man."), ("de", "Ein Mann.")), unit(("en", "Yes."), ("de-DE", "Ja."))
    pairs = read(tmp_path, HEAD + one + two + TAIL)
    assert (pairs.languages, pairs.to, pairs.target) == (("en", "de"), None, ["Ein Mann.", "Ja."])
    apart = read(tmp_path, HEAD + one.replace('"de"', '"de-AT"') + two + TAIL)
    assert apart.to == ["de-AT", "de-DE"]


def test_markup_of_other_programs_is_left_out_and_white_space_is_one_space(tmp_path: Path) -> None:
    marked = 'A  <bpt i="1">&lt;b&gt;</bpt><hi>big</hi><ept i="1">&lt;/b&gt;</ept>\n man<ph x="1"/>.<!-- why -->'
    assert read(tmp_path, HEAD + unit(("en", marked), ("de", "Ein Mann.")) + TAIL).source == ["A big man."]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("<tu><tuv><seg>A</seg></tuv></tu>", "has no language"),
        ('<tu><tuv xml:lang="en"/></tu>', "text is missing"),
        ("<tu><tuv", "not XML"),
        ("\0", "not XML"),
    ],
)
def test_a_bad_file_names_its_line(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(DataError, match=rf"a\.tmx:4: .*{says}"):
        read(tmp_path, HEAD + body + TAIL)


def test_entities_are_never_expanded_and_no_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("password")
    bomb = "".join(f'<!ENTITY b{i} "{f"&b{i - 1};" * 10}">' for i in range(1, 12))
    for name, declared in (("b11", f'<!ENTITY b0 "ha">{bomb}'), ("x", f'<!ENTITY x SYSTEM "{tmp_path}/secret">')):
        text = HEAD.replace('SYSTEM "tmx14.dtd"', f"[{declared}]")
        with pytest.raises(DataError, match=r"(?s)a\.tmx:(4: .*holds an XML entity|1: .*amplification)"):
            read(tmp_path, text + unit(("en", f"a &{name}; b"), ("de", "x")) + TAIL)
    good = text + unit(("en", f"a &{name}; b"), ("de", "x")) + unit(("en", "A"), ("de", "B")) + TAIL
    pairs = read(tmp_path, good, skip_bad=1)
    assert (pairs.source, len(pairs.skipped)) == (["A"], 1)


def test_the_size_limit_holds(tmp_path: Path) -> None:
    text = HEAD + unit(("en", "A"), ("de", "B")) * 20_000 + TAIL
    assert len(read(tmp_path, text)) == 20_000
    with pytest.raises(DataError, match="too large"):
        read(tmp_path, text, max_bytes=10_000)


def test_without_lxml_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(MissingExtraError, match=r"regard\[tmx\]"):
        read(tmp_path, HEAD + TAIL)
