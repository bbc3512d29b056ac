"""Language codes: what looks like one, and which one a file name ends in.

What is unusual: a code is recognised only where a mistake is unlikely, so bare three-letter codes (`deu`, but also
`txt`, `src`, `tok`) are not. What it does not know: the languages' names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

# ISO 639-1, two letters each.
CODES = """
aaabaeafakamanarasavayazbabebgbhbibmbnbobrbscacechcocrcscucvcydadedvdzeeeleneoeseteufafffifjfofrfygagdglgngugvhahehihohrht
huhyhziaidieigiiikioisitiujajvkakgkikjkkklkmknkokrkskukvkwkylalblglilnloltlulvmgmhmimkmlmnmrmsmtmynanbndnengnlnnnonrnvnyoc
ojomorospapiplpsptqurmrnrorurwsascsdsesgsiskslsmsnsosqsrssstsusvswtatetgthtitktltntotrtstttwtyugukuruzvevivowawoxhyiyozazhzu
"""
ISO_639_1 = frozenset(re.findall("[a-z]{2}", CODES))


def is_language(name: str) -> bool:
    """Whether this is a language code: ISO 639-1, also with a region or script (`pt_BR`, `zh-Hans`), or `deu_Latn`."""
    if re.fullmatch(r"[a-z]{3}_[A-Z][a-z]{3}", name):
        return True
    return name[:2] in ISO_639_1 and re.fullmatch(r"..([-_][A-Za-z]{2,4})?", name) is not None


def is_tag(name: str) -> bool:
    """Whether this could be meant as a code where a code is expected: `de`, `cmn`, `zh-Hans`, `deu_Latn`."""
    return re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*", name) is not None


def language_of(code: str) -> str:
    """The code without its region or script, in small letters: de for de-DE."""
    return re.split("[-_]", code.lower())[0]


def spoken(wanted: str | None, codes: Iterable[str]) -> str | None:
    """Which of some codes is meant: the wanted one itself, or else the first of its regions, en-US for en."""
    low, codes = (wanted or "").lower(), list(codes)
    same = [code for code in codes if code.lower() == low] + [code for code in codes if language_of(code) == low]
    return same[0] if same else None


def bare(path: Path) -> Path:
    """The path without .gz or .zst."""
    return path.with_suffix("") if path.suffix in (".gz", ".zst") else path


def suffix_language(path: Path) -> str | None:
    """The language that a file name ends in: "en" for train.en and train.en.gz."""
    code = bare(path).suffix.removeprefix(".")
    return code if is_language(code) else None
