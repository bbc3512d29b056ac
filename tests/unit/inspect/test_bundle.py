"""One file of the page: modules in order, names told apart, data that cannot run; and a browser that opens it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from regard.inspect import bundle
from regard.inspect.bundle import BundleError, as_json, joined, masked, page_html, read_module

ODD = r"""
import { a, b } from "./one.js";
// import { x } from "./comment.js"; export function comment() {}
/* export const block = 1; */
const text = "export const string = 1; import('x')";
const pattern = /export const regex = [/"'`] 1/g;
const half = text.length / 2;
const third = half / 3;
export const template = `import { y } from "./z.js"; ${[1, 2].map((n) => `${n} export { inner }`).join("}")} export`;
export class Thing { exportAll() { return { import: 1 }; } }
"""


def test_what_is_no_code_is_masked_and_nothing_moves() -> None:
    code = masked(ODD, "odd.js")
    assert len(code) == len(ODD) and code.count("\n") == ODD.count("\n")
    for word in ("comment", "block", "string", "regex", "inner"):
        assert word not in code
    for word in ("pattern", "half / 3", "map((n) =>", "join(", "class Thing", "exportAll"):
        assert word in code, word


def test_a_module_is_read() -> None:
    module = read_module(ODD.replace("import: 1", "imported: 1"), "odd.js")
    assert module.imports == {"one.js": ("a", "b")}
    assert module.exports == {"template", "Thing"}
    assert module.names == ("text", "pattern", "half", "third", "template", "Thing")
    assert not re.search(r"^(import|export)\b", module.text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "line",
    [
        'import x from "./one.js";', 'import * as x from "./one.js";', 'import "./one.js";',
        'import { a as b } from "./one.js";', "import { a } from './one.js';", 'import { a } from "https://x.org/1.js";',
        'import { a } from "./sub/one.js";', 'const one = await import("./one.js");', "const here = import.meta.url;",
        "export default function f() {}", "export { a };", 'export * from "./one.js";', "  export const a = 1;",
        "export const { a } = x;", "const [a, b] = x;", "let a = 1, b = 2;", "const a = 1; const b = 2;", "var a = 1;",
        "function f() { export const a = 1; }",
    ],
)  # fmt: skip
def test_any_other_form_is_refused_with_its_place(line: str) -> None:
    with pytest.raises(BundleError, match=r"m\.js"):
        read_module(f"// first\n{line}\n", "m.js")


def test_modules_come_after_what_they_import_each_once() -> None:
    sources = {
        "app.js": 'import { b } from "./b.js";\nimport { c } from "./c.js";\nb(c);\n',
        "b.js": 'import { c } from "./c.js";\nexport function b(x) { return x + c; }\n',
        "c.js": "export const c = 1;\n",
        "unused.js": "export const never = 1;\n",
    }
    text = joined(sources, "app.js")
    assert text.index("const c") < text.index("function b") < text.index("b(c)") and text.count("const c") == 1
    assert "never" not in text and "import" not in text and "export" not in text


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ({"b.js": 'import { a } from "./app.js";\nexport const b = 1;\n'}, "circle"),
        ({"b.js": "export const c = 1;\n"}, "does not export b"),
        ({}, r"there is no b\.js"),
        ({"b.js": "const helper = 2;\nexport const b = 1;\n"}, "helper is declared"),
    ],
)
def test_modules_that_cannot_be_joined(sources: dict[str, str], said: str) -> None:
    with pytest.raises(BundleError, match=said):
        joined({"app.js": 'import { b } from "./b.js";\nconst helper = 1;\n', **sources}, "app.js")


EVIL = {"text": "</script><script>alert(1)</script><!--", "line": "\u2028", "half": "\udc80", "quote": '"\\'}


def test_data_is_the_same_and_cannot_end_its_script() -> None:
    text = as_json(EVIL)
    assert "<" not in text and "\u2028" not in text
    text.encode("utf-8")
    assert json.loads(text) == EVIL
    with pytest.raises(ValueError):
        as_json({"x": float("nan")})


def test_the_page_is_one_file_that_names_all_it_may_run() -> None:
    page = page_html({"evil": EVIL})
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', page)
    (style,), (script,) = (re.findall(rf"<{tag}>(.*?)</{tag.split()[0]}>", page, re.DOTALL)
                           for tag in ("style", 'script type="module"'))  # fmt: skip
    for kind, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    (data,) = re.findall(r'<script type="application/json" id="regard-data">(.*?)</script>', page, re.DOTALL)
    assert json.loads(data) == {"evil": EVIL}
    assert page.count("<script") == 2 and not re.search(r"""\s(src|href)=["'](?!#|data:)""", page)


@pytest.mark.parametrize("path", sorted(bundle.PAGE.glob("*.js")), ids=lambda path: path.name)
def test_a_module_of_the_page_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 350 and text.startswith("/*")
    assert "innerHTML" not in masked(text, path.name), "texts of data reach the page as text nodes only"


def test_the_joined_script_is_javascript() -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("no node: the browser tests open the file itself")
    sources = {path.name: path.read_text(encoding="utf-8") for path in bundle.PAGE.glob("*.js")}
    words = [node, "--input-type=module", "--check"]
    done = subprocess.run(words, input=joined(sources, "app.js"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
