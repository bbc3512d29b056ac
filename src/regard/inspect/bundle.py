"""One HTML file of the page that needs nothing else: no server, no network, no other file.

    index.html + style.css + app.js and what it imports + data   ->   <style>, <script type="module">, <script json>

What is unusual: browsers load no module from file://, so the modules become one script, each after those it imports.
Nothing is rewritten but the words `import` and `export`, which only works because of rules that are checked here: one
form of import, exports where a name is declared, and no name declared twice at the top of any two modules. Style and
script are allowed by their SHA-256 alone; what the data holds cannot run.
What it does not know: what the page does, and what the data means.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("page")
ENTRY = "app.js"

_IMPORT = re.compile(r'import \{ ([\w$]+(?:, [\w$]+)*) \} from "\./([\w-]+\.js)";')
_EXPORT = re.compile(r"export (?=(?:async )?function\*? |class |const |let )")
_DECLARED = re.compile(r"^(?:async )?(?:function\*?|class|const|let) ([\w$]+)", re.MULTILINE)
_OTHERWISE = re.compile(
    r"^(?:var\b|(?:const|let) [\[{]|(?:const|let)\b[^;\n]*,)|[;}] *(?:var|const|let|class|function|async)\b",
    re.MULTILINE,
)
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[\w$]+)|(?P<space>\s+)|(?P<mark>.)""",
    re.DOTALL,
)
_REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/\w*")
_TEMPLATE = re.compile(r"(?:\\.|\$(?!\{)|[^`\\$])*(?P<end>`|\$\{)", re.DOTALL)
_BEFORE_REGEX = {"return", "typeof", "case", "in", "of", "await", "yield", "throw", "new", "void", "delete", "else"}
_STYLE = re.compile(r'<link rel="stylesheet" href="page/([\w-]+\.css)"\s*/?>')
_SCRIPT = re.compile(r'<script type="module" src="page/([\w-]+\.js)"></script>')
_ELSEWHERE = re.compile(r"""\s(?:src|href|srcset|action|poster)\s*=\s*["']?(?!#|data:)[^"'\s>]""")


class BundleError(Exception):
    """The page's own files break a rule that one file needs: a fault of ours, never of a user's."""


def page_html(data: Mapping[str, Any]) -> str:
    """The whole page as one HTML text that shows `data` (look.md: model, runs, tensors, roles, lens).

    Raises:
        BundleError: see there.
    """
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    sources = {path.name: path.read_text(encoding="utf-8") for path in PAGE.glob("*.js")}
    style = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in _STYLE.findall(index))
    if re.search(r"@import|url\((?![\"']?(?:data:|#))", style):
        raise BundleError("style.css refers to another file")
    if _SCRIPT.findall(index) != [ENTRY]:
        raise BundleError(f"index.html has not just one module script, page/{ENTRY}")
    script = _script(tuple(sorted(sources.items())))
    return _filled(index, f"\n{style}\n", f"\n{script}\n", data)


@lru_cache(maxsize=1)
def _script(sources: tuple[tuple[str, str], ...]) -> str:
    """All modules as one, made once for many pages: it takes a second."""
    return joined(dict(sources), ENTRY)


def _filled(index: str, style: str, script: str, data: Mapping[str, Any]) -> str:
    """index.html with everything inside, and a policy that allows just that."""
    for name, text, end in (("style.css", style, "</style"), (ENTRY, script, "</script"), (ENTRY, script, "<!--")):
        if end in text.lower():
            raise BundleError(f"{name} holds {end}, which would end it within HTML")
    policy = (
        f"default-src 'none'; script-src {_allowed(script)}; style-src {_allowed(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    first, *others = _STYLE.finditer(index)
    pieces = {first.group(): f"<style>{style}</style>", **{other.group(): "" for other in others}}
    module = _SCRIPT.search(index)
    assert module is not None, "page_html found it"
    embedded = f'<script type="application/json" id="regard-data">{as_json(data)}</script>\n'
    pieces[module.group()] = f'{embedded}<script type="module">{script}</script>'
    bare = index
    for old in pieces:
        bare = bare.replace(old, "")
    if elsewhere := _ELSEWHERE.search(bare):
        raise BundleError(f"index.html refers to another file:{elsewhere.group()}..")
    head = f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    pieces["<head>"] = head
    # All at once, so that nothing is looked for in what was put in.
    pattern = re.compile("|".join(map(re.escape, pieces)))
    return pattern.sub(lambda found: pieces[found.group()], index)


def as_json(data: Mapping[str, Any]) -> str:
    """JSON that may stand inside a <script>: no `<`, no line separators; half a character becomes its escape."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # \udc80 is an escape of JSON's too
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _allowed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# ---------------------------------------------------------------- modules


@dataclass(frozen=True)
class Module:
    """One file of the page, as its text tells.

    Attributes:
        imports: names by the file that they are from.
        exports: names that others may import.
        names: all that are declared at its top.
        text: the file, without imports and without the word `export`.
    """

    imports: Mapping[str, tuple[str, ...]]
    exports: frozenset[str]
    names: tuple[str, ...]
    text: str


def joined(sources: Mapping[str, str], entry: str) -> str:
    """The text of `entry` after that of all it needs, each once.

    Raises:
        BundleError: a form of import or export that is not known, a name that is not exported or declared twice,
            modules that import each other in a circle.
    """
    modules: dict[str, Module] = {}
    _add(entry, sources, modules, ())
    owner: dict[str, str] = {}
    for file, module in modules.items():
        for name in module.names:
            if name in owner:
                raise BundleError(f"{name} is declared at the top of {owner[name]} and of {file}")
            owner[name] = file
    return "\n".join(f"// {name}\n{module.text.strip()}\n" for name, module in modules.items())


def _add(name: str, sources: Mapping[str, str], modules: dict[str, Module], within: tuple[str, ...]) -> None:
    """Put a module behind all that it imports."""
    if name in within:
        raise BundleError(f"these modules import each other in a circle: {' -> '.join((*within, name))}")
    if name in modules:
        return
    if name not in sources:
        raise BundleError(f"{within[-1] if within else 'index.html'}: there is no {name}")
    module = read_module(sources[name], name)
    for file, names in module.imports.items():
        _add(file, sources, modules, (*within, name))
        if missing := set(names) - modules[file].exports:
            raise BundleError(f"{name}: {file} does not export {', '.join(sorted(missing))}")
    modules[name] = module


def read_module(source: str, name: str) -> Module:
    """What a file imports, exports and declares. Raises BundleError naming its line."""
    code = masked(source, name)
    cuts: list[slice] = []
    imports: dict[str, tuple[str, ...]] = {}
    exported: set[str] = set()
    outer = _outermost(code)
    for word in re.finditer(r"(?<![.\w$])(?:import|export)\b", code):
        found = (_IMPORT if word.group() == "import" else _EXPORT).match(source, word.start())
        starts_a_line = source[: word.start()].endswith("\n") or word.start() == 0
        if found is None or not starts_a_line or outer[word.start()] == " ":
            line = source.count("\n", 0, word.start()) + 1
            raise BundleError(f"{name}:{line}: a form of {word.group()} that regard.inspect.bundle does not know")
        cuts.append(slice(found.start(), found.end()))
        if word.group() == "import":
            names, file = found.groups()
            imports[file] = (*imports.get(file, ()), *names.split(", "))
        elif declared := _DECLARED.match(outer[found.end() :]):
            exported.add(declared[1])
    bare = _without(outer, cuts)
    if other := _OTHERWISE.search(bare):
        raise BundleError(
            f"{name}: {other.group().strip()!r} at its top; one name is declared by one const, let, function or class"
        )
    return Module(imports, frozenset(exported), tuple(_DECLARED.findall(bare)), _without(source, cuts))


def _without(text: str, cuts: list[slice]) -> str:
    for cut in reversed(cuts):
        text = text[: cut.start] + text[cut.stop :]
    return text


def _outermost(code: str) -> str:
    """Masked code with everything within brackets blanked too; as long as before."""
    kept, depth = [], 0
    for char in code:
        depth -= char in ")]}"
        kept.append(char if depth == 0 or char == "\n" else " ")
        depth += char in "([{"
    return "".join(kept)


def masked(source: str, name: str) -> str:
    """The code with all that is no code blanked: comments, strings, templates but their expressions, patterns.

    It is as long as `source` and has the same lines, so a place in the one is the same place in the other.
    """
    return "".join(
        text if is_code else "".join("\n" if char == "\n" else " " for char in text)
        for text, is_code in _scan(source, name)
    )


def _scan(source: str, name: str) -> Iterator[tuple[str, bool]]:
    """The source in pieces: (text, whether it is code)."""
    place, before = 0, ""  # before: the last word or mark, which tells a pattern from a division
    open_braces: list[int] = []  # of each template that we are in an expression of
    while place < len(source):
        found = _TOKEN.match(source, place)
        assert found is not None, "any character is a mark"
        text, kind = found.group(), found.lastgroup
        if kind == "mark" and text == "/" and (before in _BEFORE_REGEX or not re.fullmatch(r"[\w$]+|[)\]}]", before)):
            text, kind = _matched(_REGEX, source, place, name), "pattern"
        elif text == "`" or (text == "}" and open_braces and open_braces[-1] == 0):
            if text == "}":
                open_braces.pop()
            text, kind = text + _matched(_TEMPLATE, source, place + 1, name), "template"
            if text.endswith("${"):
                open_braces.append(0)
        elif open_braces and text in "{}":
            open_braces[-1] += 1 if text == "{" else -1
        yield text, kind in ("word", "space", "mark")
        if kind == "template":
            before = "(" if text.endswith("${") else ")"
        elif kind not in ("space", "comment"):
            before = ")" if kind in ("string", "pattern") else text
        place += len(text)


def _matched(pattern: re.Pattern[str], source: str, place: int, name: str) -> str:
    found = pattern.match(source, place)
    if found is None:
        raise BundleError(f"{name}:{source.count(chr(10), 0, place) + 1}: a pattern or template without an end")
    return found.group()
